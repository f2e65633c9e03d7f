"""``coverlock bench filters``: several backbones, one table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image

pytest.importorskip("torch")

from coverlock_plugins.convnext.classifiers import BACKBONES
from coverlock_sdk.cli import build_cli
from coverlock_sdk.plugin_manager import plugin_manager
from coverlock_sdk.testing import natural_pictures
from tests.conftest import AdditivePlugin


def test_every_backbone_is_trained_and_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = {name: BACKBONES[name] for name in ("convnext", "resnet")}  # DINOv2 has to be fetched
    monkeypatch.setattr("experiments.filters.BACKBONES", here)
    photos = tmp_path / "photos"
    photos.mkdir()
    for index, picture in enumerate(natural_pictures(40, (64, 64), seed=5)):
        Image.fromarray(picture).save(photos / f"{index:02}.png")
    plugin_manager().add("additive-for-filters", AdditivePlugin())
    out = tmp_path / "filters.json"
    sizes = ["--pictures", "4", "--validation", "3", "--steps", "1"]
    places = ["--runs", str(tmp_path / "runs"), "-o", str(out)]
    command = ["bench", "filters", str(photos), "-w", "additive", *sizes, *places]
    result = CliRunner().invoke(build_cli(), command)
    assert result.exit_code == 0, result.output
    for row in ("ConvNeXt", "ResNet"):
        assert f"| additive | {row} |" in result.output
    figures = json.loads(out.read_text())["figures"]["additive"]
    for card in figures.values():
        assert 0 <= card["held_out_auc"]["clean"] <= 1
        assert card["recipe"]["steps"] == 1
        assert card["paper"] is None  # it has no such watermark
    assert len(list((tmp_path / "runs" / "additive" / "cache").glob("*.npy"))) == 2

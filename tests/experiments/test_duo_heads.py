"""Heads of ``duo`` between two aims, from as few pictures as can be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from coverlock_sdk.cli import build_cli
from coverlock_sdk.testing import natural_pictures
from coverlock_sdk.training.hashes import curriculum
from coverlock_sdk.training.hashes.duo_recipe import DuoRecipe
from coverlock_sdk.training.kinds import collection
from coverlock_sdk.training.kinds.catalogue import KINDS
from experiments import duo_heads


def test_each_preference_has_its_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for number, picture in enumerate(natural_pictures(12, (64, 64), seed=3)):
        Image.fromarray(picture).save(photos / f"{number:03}.png")
    monkeypatch.setattr(collection, "KINDS", {"logos": KINDS["logos"], "forms": KINDS["forms"]})
    monkeypatch.setattr(curriculum, "PER_SET", 3)
    monkeypatch.setattr(duo_heads, "PREFERENCES", (0.0, 3.0))
    small = DuoRecipe(held_out=0.3, templates=1, views=1)
    monkeypatch.setattr(duo_heads, "DuoRecipe", lambda seed: small)
    out = tmp_path / "heads.json"
    arguments = ["bench", "duo-heads", str(photos), "--runs", str(tmp_path / "run"), "-o", str(out)]
    result = CliRunner().invoke(build_cli(), arguments)
    assert result.exit_code == 0, result.output
    rows = json.loads(out.read_text())["figures"]
    assert list(rows) == ["0", "3"]
    assert rows["0"]["error"] != rows["3"]["error"]

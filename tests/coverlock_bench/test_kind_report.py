"""Kinds of pictures in the hash report."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_bench.hashes import collision_report
from coverlock_bench.hashes.collision_picture import draw_collisions
from coverlock_sdk.cli import build_cli
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.training.kinds import collection
from coverlock_sdk.training.kinds.catalogue import KINDS
from experiments.doc_tables import render

pytest.importorskip("matplotlib")
pytest.importorskip("torch")


@pytest.fixture
def report(tmp_path, photos, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few = {name: KINDS[name] for name in ("QR codes", "logos")}
    monkeypatch.setattr(collection, "KINDS", few)
    for searches in ("SEARCHES", "MORE_SEARCHES"):
        usual = getattr(collision_report, searches)
        quick = {name: {**search, "steps": 1} for name, search in usual.items()}
        monkeypatch.setattr(collision_report, searches, quick)
    (tmp_path / "photos").mkdir()
    for index, photo in enumerate(photos[:4]):
        Image.fromarray(photo).save(tmp_path / "photos" / f"{index}.png")
    arguments = ["bench", "hash", "--images", "photos", "--hash", "dct", "-o", "hash-kinds.json"]
    result = CliRunner().invoke(
        build_cli(), [*arguments, "--kinds", "3", "--collisions", "1", "--curve"]
    )
    assert result.exit_code == 0, result.output
    shutil.copy("hash-kinds.json", "hash-collisions.json")
    return json.loads((tmp_path / "hash-kinds.json").read_text())["figures"], result.output


def test_forgers_are_drawn_over_what_they_may_change(report, tmp_path):
    draw_collisions(report[0], tmp_path / "collisions.svg")
    drawing = (tmp_path / "collisions-dark.svg").read_text()
    for text in ("without a key", "with a key", "30 dB", "38 dB", "SSIM", "dct"):
        assert text in drawing


def test_a_report_compares_pictures_of_every_kind_and_prints_the_bars(report, tmp_path):
    figures, output = report
    codes = figures["kinds"]["dct"]["QR codes"]
    assert codes["pairs"] == 2 * 3  # two templates, three pictures each
    assert codes["one_template"]
    assert list(codes["bit_error"]) == list(EVALUATION)
    assert figures["kinds"]["dct"]["logos"]["pairs"] == 3
    assert "| QR codes: mean agreement |" in output
    assert "| collisions of 1, 34 dB, key |" in output
    for name, expected in {
        "hash-kinds": "| QR codes (one template) |",
        "hash-collisions": "| 34 dB, low frequencies |",
        "hash-linearity": "| dct |",
        "hash-bars": "| logos: pairs at 51 of 64 |",
    }.items():
        assert expected in render(f"<!-- table: {name} -->\n<!-- end of table -->", tmp_path)

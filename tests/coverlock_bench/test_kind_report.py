"""Kinds of pictures in the hash report."""

import json

import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_sdk.cli import build_cli
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_training.kinds import collection
from coverlock_training.kinds.catalogue import KINDS
from experiments.tables import render

pytest.importorskip("matplotlib")


def test_a_report_compares_pictures_of_every_kind(tmp_path, photos, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few = {name: KINDS[name] for name in ("bar codes", "portraits")}
    monkeypatch.setattr(collection, "KINDS", few)
    (tmp_path / "photos").mkdir()
    for index, photo in enumerate(photos[:4]):
        Image.fromarray(photo).save(tmp_path / "photos" / f"{index}.png")
    arguments = ["bench", "hash", "--images", "photos", "--hash", "octave", "-o", "hash.json"]
    result = CliRunner().invoke(build_cli(), [*arguments, "--kinds", "3"])
    assert result.exit_code == 0, result.output
    kinds = json.loads((tmp_path / "hash.json").read_text())["figures"]["kinds"]["octave"]
    assert kinds["bar codes"]["pairs"] == 2 * 3  # two templates, three pictures each
    assert kinds["bar codes"]["one_template"]
    assert list(kinds["bar codes"]["bit_error"]) == list(EVALUATION)
    assert kinds["portraits"]["pairs"] == 3
    assert "| bar codes (one template) |" in result.output
    table = render("<!-- table: hash-kinds -->\n<!-- end of table -->", tmp_path)
    assert "| bar codes (one template) |" in table

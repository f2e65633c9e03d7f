"""Pictures that are alike in the hash report."""

import json

import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_bench.hashes import hash_report
from coverlock_sdk.cli import build_cli
from coverlock_sdk.images.distortions import EVALUATION
from experiments.tables import render


@pytest.fixture
def kinds(photo_folder, photos):
    """A folder with three pages of a form that differ in one field."""
    forms = photo_folder.parent / "kinds" / "forms"
    forms.mkdir(parents=True)
    for index in range(3):
        page = photos[0].copy()
        page[: 8 * index, :16] = 0
        Image.fromarray(page).save(forms / f"{index}.png")
    return forms.parent


def run(photo_folder, kinds):
    arguments = ["bench", "hash", "--images", str(photo_folder), "--hash", "octave"]
    command = [*arguments, "--kinds", str(kinds), "-o", "hash.json"]
    return CliRunner().invoke(build_cli(), command)


def test_a_report_compares_the_pictures_of_every_subfolder(photo_folder, kinds, monkeypatch):
    monkeypatch.setattr(hash_report, "TIMINGS", 2)
    result = run(photo_folder, kinds)
    assert result.exit_code == 0, result.output
    document = json.loads((photo_folder.parent / "hash.json").read_text())
    forms = document["figures"]["kinds"]["octave"]["forms"]
    assert forms["pairs"] == 3
    assert forms["mean"] > 0.8
    assert list(forms["bit_error"]) == list(EVALUATION)
    assert "| forms |" in result.output
    table = render("<!-- table: hash-kinds -->\n<!-- end of table -->", photo_folder.parent)
    assert "| forms |" in table


def test_a_picture_alone_cannot_be_told_apart(photo_folder, kinds):
    for extra in sorted((kinds / "forms").iterdir())[1:]:
        extra.unlink()
    result = run(photo_folder, kinds)
    assert result.exit_code == 2
    assert "the subfolder 'forms'" in result.output

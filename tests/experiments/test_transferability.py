import json

import pytest
from click.testing import CliRunner

from experiments.__main__ import studies

pytestmark = pytest.mark.usefixtures("additive_plugin")


def run(folder, *options):
    arguments = ["transferability", "-w", "additive", "--images", str(folder), "-o", "r.json"]
    result = CliRunner().invoke(studies, [*arguments, *options])
    assert result.exit_code == 0, result.output
    return json.loads((folder.parent / "r.json").read_text()), result.output


def test_quality_rt_and_signatures_stand_in_one_row(photo_folder, monkeypatch):
    monkeypatch.setattr("experiments.transferability.MESSAGES", 2)
    document, output = run(photo_folder, "--sources", "1", "--sources", "900")
    assert document["command"] == "experiments transferability"
    row = document["figures"]["additive"]
    assert list(row["rt"]) == ["1"]  # four photos do not reach nine hundred sources
    assert row["rt"]["1"]["rt"] > 0.9
    assert row["bit_accuracy"]["clean"] > 0.95
    assert row["psnr"] > 25
    assert "not_measured" in row["signatures"]["residuals"]  # which need ten covers
    assert "| additive | 48 at 128 px |" in output

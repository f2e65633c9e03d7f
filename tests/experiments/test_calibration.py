import json

import pytest
from click.testing import CliRunner

from experiments.__main__ import studies
from experiments.calibration import CALIBRATION

pytest.importorskip("scipy")


@pytest.mark.usefixtures("additive_plugin")
def test_calibration_counts_matches_of_unmarked_photos(photo_folder):
    command = ["calibration", "-w", "additive", "--images", str(photo_folder), "--messages", "2"]
    results = [CliRunner().invoke(studies, [*command, "-o", f"{n}.json"]) for n in range(2)]
    first, again = (json.loads((photo_folder.parent / f"{n}.json").read_text()) for n in range(2))
    assert first["figures"] == again["figures"]  # the second run reads the p-values it kept
    [figures] = first["figures"].values()
    assert list(figures) == ["no lock", "locked without a key", "locked"]
    public = figures["locked without a key"]
    assert sum(public["match_histogram"]) == 4 * 2
    assert 0 <= public["variance_ratio"]["low"] < public["variance_ratio"]["high"]
    assert "match_histogram" not in figures["locked"]  # which only the key's owner could count
    rare = figures["locked"]["exceedance"]["1e-05"]
    assert (rare["observed"], rare["low"]) == (0, 0)
    assert rare["high"] == pytest.approx(1 - 0.025 ** (1 / 4))  # none of four photos
    assert rare["at_most_expected"]
    table = CALIBRATION.markdown(first["figures"])
    assert table in results[0].output
    header, _, *rows = table.splitlines()
    levels = [header.count(f"p <= {level} ") for level in ("0.1", "0.01", "0.001", "1e-05")]
    assert levels == [1] * 4
    assert [row.count("[") for row in rows] == [5, 5, 4]  # one of the variance, four of shares

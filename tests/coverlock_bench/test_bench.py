from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_bench.attacks.ground_truth import GroundTruthResidual
from coverlock_sdk import load_attack
from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import CoverLockError
from tests.bench_runs import bench

pytestmark = pytest.mark.usefixtures("additive_plugin")


def test_calibration_counts_matches_of_unmarked_photos(photo_folder):
    pytest.importorskip("scipy")
    options = ("--messages", "5", "--hash", "dct", "--hash", "phash")
    figures = bench("calibration", photo_folder, *options)
    again = bench("calibration", photo_folder, *options)
    assert figures == again  # the second run reads the decoded logits it kept
    assert list(figures) == ["vanilla", "locked, dct", "locked, phash"]
    locked = figures["locked, dct"]
    assert sum(locked["match_histogram"]) == 4 * 5
    assert 0 <= locked["exceedance"]["soft"]["0.01"]["observed"] <= 1
    ratio = locked["variance_ratio"]
    assert 0 <= ratio["low"] < ratio["high"]


def test_quarters_of_photos_are_pictures_but_no_more_photos(photo_folder):
    pytest.importorskip("scipy")
    options = ("--messages", "2", "--hash", "dct", "--quarters")
    locked = bench("calibration", photo_folder, *options)["locked, dct"]
    assert (locked["photos"], locked["pictures"]) == (4, 20)
    assert sum(locked["match_histogram"]) == 20 * 2
    rare = locked["exceedance"]["hard"]["1e-05"]
    assert rare["high"] == pytest.approx(1 - 0.025 ** (1 / 4))  # of four photos, not of twenty


def test_no_false_positive_among_few_photos_does_not_prove_that_there_are_none(photo_folder):
    pytest.importorskip("scipy")
    figures = bench("calibration", photo_folder, "--messages", "2", "--hash", "dct")
    rare = figures["locked, dct"]["exceedance"]["hard"]["0.0001"]
    assert (rare["observed"], rare["low"]) == (0, 0)
    assert rare["high"] == pytest.approx(1 - 0.025 ** (1 / 4))  # none of four photos
    assert rare["expected_inside_interval"]


def test_result_files_are_drawn(photo_folder):
    pytest.importorskip("scipy")
    pytest.importorskip("matplotlib")
    bench("calibration", photo_folder, "--messages", "3", "--hash", "dct")
    result = CliRunner().invoke(build_cli(), ["bench", "draw", "r.json", "calibration.png"])
    assert result.exit_code == 0, result.output
    with Image.open(photo_folder.parent / "calibration.png") as picture:
        assert picture.width > 800
    (photo_folder.parent / "r.json").write_text(json.dumps({"command": "bench rules"}))
    result = CliRunner().invoke(build_cli(), ["bench", "draw", "r.json", "rules.png"])
    assert result.exit_code == 2
    assert "no picture for 'bench rules'" in result.output


def test_the_oracle_adds_the_mean_residual():
    originals = np.full((2, 3, 4, 4), 0.5, np.float32)
    references = originals + np.float32([0.1, 0.3])[:, None, None, None]
    targets = np.full((1, 3, 4, 4), 0.7, np.float32)
    forged = GroundTruthResidual(sources=2).forge(references, targets, originals=originals)
    np.testing.assert_allclose(forged, 0.9, atol=1e-6)
    clipped = load_attack("gt").forge(references[1:], targets + 0.2, originals=originals[1:])
    assert clipped.max() == 1
    with pytest.raises(CoverLockError, match="GT@3 needs 3 marked pictures"):
        GroundTruthResidual(sources=3).forge(references, targets, originals=originals)

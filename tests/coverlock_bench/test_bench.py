import numpy as np
import pytest

from coverlock_bench.attacks.ground_truth import GroundTruthResidual
from coverlock_sdk import load_attack
from coverlock_sdk.errors import CoverLockError
from tests.bench_runs import bench

pytestmark = pytest.mark.usefixtures("additive_plugin")


def test_calibration_counts_matches_of_unmarked_photos(photo_folder):
    pytest.importorskip("scipy")
    figures = bench("calibration", photo_folder, "--messages", "2")
    again = bench("calibration", photo_folder, "--messages", "2")
    assert figures == again  # the second run reads the p-values it kept
    assert list(figures) == ["no lock", "locked without a key", "locked"]
    public = figures["locked without a key"]
    assert sum(public["match_histogram"]) == 4 * 2
    assert 0 <= public["variance_ratio"]["low"] < public["variance_ratio"]["high"]
    assert "match_histogram" not in figures["locked"]  # which only the key's owner could count
    rare = figures["locked"]["exceedance"]["1e-05"]
    assert (rare["observed"], rare["low"]) == (0, 0)
    assert rare["high"] == pytest.approx(1 - 0.025 ** (1 / 4))  # none of four photos
    assert rare["at_most_expected"]


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

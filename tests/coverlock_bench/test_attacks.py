import numpy as np
import pytest

from coverlock_bench.attacks.averaging import AveragedResidual
from coverlock_bench.attacks.denoise import DenoisedResidual
from coverlock_bench.attacks.ground_truth import GroundTruthResidual
from coverlock_sdk import load_attack
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.testing import natural_pictures


def pictures(count: int, seed: int, size: tuple[int, int] = (128, 128)) -> np.ndarray:
    return natural_pictures(count, size, seed=seed).transpose(0, 3, 1, 2).astype(np.float32) / 255


@pytest.fixture(scope="module")
def released(additive):
    """Marked pictures of one message, their originals, and the message."""
    originals = pictures(40, seed=3)
    message = np.random.default_rng(0).integers(0, 2, additive.bits, dtype=np.uint8)
    return additive.embed(originals, message), originals, message


def accuracy(additive, forged: np.ndarray, message: np.ndarray) -> float:
    return float(((additive.decode(forged) > 0) == message).mean())


def test_averaging_finds_a_fixed_mark_without_originals(additive, released):
    marked, _, message = released
    attack = AveragedResidual(pictures(40, seed=4), references=40)
    assert accuracy(additive, attack.forge(marked, pictures(4, seed=5)), message) > 0.9


def test_the_copy_attack_lifts_a_mark_from_one_picture(additive, released):
    marked, originals, message = released
    targets = pictures(4, seed=5)
    assert accuracy(additive, DenoisedResidual().forge(marked, targets), message) > 0.8
    assert accuracy(additive, DenoisedResidual().forge(originals, targets), message) < 0.7


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

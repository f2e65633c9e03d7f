from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coverlock_bench.attacks.averaging import AveragedResidual
from coverlock_bench.attacks.denoise import DenoisedResidual, wiener
from coverlock_sdk import load_attack
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.testing import natural_pictures


def pictures(count: int, seed: int, size: tuple[int, int] = (128, 128)) -> np.ndarray:
    return natural_pictures(count, size, seed=seed).transpose(0, 3, 1, 2).astype(np.float32) / 255


@pytest.fixture(scope="module")
def released(additive) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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


def test_averaging_resizes_its_pattern_to_the_targets(released):
    marked, _, _ = released
    attack = AveragedResidual(pictures(4, seed=4, size=(96, 96)), references=4)
    assert attack.forge(marked, pictures(2, seed=5, size=(64, 80))).shape == (2, 3, 64, 80)


@pytest.mark.parametrize(
    ("attack", "missing"),
    [
        (AveragedResidual(np.zeros((2, 3, 8, 8), np.float32), references=3), "natural"),
        (AveragedResidual(np.zeros((9, 3, 8, 8), np.float32), references=9), "marked"),
        (DenoisedResidual(references=9), "9 marked pictures"),
    ],
)
def test_too_few_pictures_are_counted(attack, missing):
    few = np.zeros((3, 3, 8, 8), np.float32)
    with pytest.raises(CoverLockError, match=missing):
        attack.forge(few, few)


def test_the_copy_attack_lifts_a_mark_from_one_picture(additive, released):
    marked, originals, message = released
    targets = pictures(4, seed=5)
    assert accuracy(additive, DenoisedResidual().forge(marked, targets), message) > 0.8
    assert accuracy(additive, DenoisedResidual().forge(originals, targets), message) < 0.7


@given(st.integers(0, 50), st.sampled_from([3, 4, 5]))
def test_a_denoiser_smooths_and_keeps_the_level(seed, window):
    noisy = np.random.default_rng(seed).random((1, 3, 24, 24), dtype=np.float32)
    clean = wiener(noisy, window)
    assert clean.std() < noisy.std()
    assert abs(clean.mean() - noisy.mean()) < 0.05


def test_attacks_are_found_by_name_and_say_their_settings():
    assert repr(load_attack("denoise", window=7)) == (
        "DenoisedResidual(references=1, window=7, strength=1.0)"
    )
    assert "steps=50, rate=None" in repr(load_attack("wmforger"))

"""The MHDW-style defence: its hash by hand, and the lock it shares with CoverLock."""

import hashlib

import numpy as np
import pytest

from coverlock_plugins.mhdw import Mhdw, MhdwHash, block_magnitudes, block_pairs
from coverlock_sdk import load_defense, load_hash
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from tests.coverlock_plugins.scenes import scenes

WAVE = 0.1 * np.cos(np.pi * (np.arange(32) + 0.5) / 32)
"""The lowest horizontal frequency of a block."""
STRENGTH = 0.1 * np.sqrt(32) * 4
"""Its DCT coefficient: sqrt(32) for the sum over rows, and 16 * sqrt(2 / 32) over columns."""


def wave_in_block(block: int) -> np.ndarray:
    """A grey picture with the wave in one of its 8 x 8 blocks."""
    picture = np.full((1, 3, 256, 256), 0.5, np.float32)
    row, column = 32 * (block // 8), 32 * (block % 8)
    picture[:, :, row : row + 32, column : column + 32] += WAVE.astype(np.float32)
    return picture


def test_magnitudes_by_hand():
    magnitudes = block_magnitudes(wave_in_block(19))
    assert magnitudes.shape == (1, 8, 64)
    expected = np.zeros((8, 64))
    expected[0, 19] = STRENGTH  # the first frequency is (0, 1), and the mean is not among them
    np.testing.assert_allclose(magnitudes[0], expected, atol=1e-5)
    upright = np.swapaxes(wave_in_block(19), 2, 3)  # block 19 is (2, 3), so now (3, 2) is 26
    np.testing.assert_allclose(block_magnitudes(upright)[0, 1, 26], STRENGTH, atol=1e-5)
    np.testing.assert_allclose(block_magnitudes(1 - wave_in_block(19))[0], expected, atol=1e-5)


@pytest.mark.parametrize("side", [0, 1])
def test_the_stronger_block_of_a_pair_decides_its_bit(side):
    block = int(block_pairs(0)[0, 5, side])
    [logits] = MhdwHash().logits(wave_in_block(block))
    expected = np.zeros(256)
    expected[5] = STRENGTH if side == 0 else -STRENGTH
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_the_pairing_never_changes():
    digest = hashlib.sha256(block_pairs(0).astype("<i8").tobytes()).hexdigest()
    assert digest == "d38fdabac6e3d762bd557bdc35dcd88a5d84699856efab888d92bfcd480c74d5"
    assert not np.array_equal(block_pairs(0), block_pairs(1))


def test_the_defence_is_registered_and_binds(additive):
    defense = load_defense("mhdw", rule="hard")
    assert isinstance(defense, Mhdw)
    assert load_hash("mhdw").name == "mhdw"
    locked = defense.protect(additive)
    assert isinstance(locked, LockedWatermark)
    assert locked.binder.rounds == defense.rounds
    source, target = scenes(2)
    marked = locked.embed(source, "invoice 7")
    assert locked.verify(marked, "invoice 7")
    assert not locked.verify(marked, "invoice 8")
    assert not locked.verify(transplanted(source, marked, target), "invoice 7")
    unprotected = load_defense("none", rule="hard").protect(additive)
    marked = unprotected.embed(source, "invoice 7")
    assert unprotected.verify(transplanted(source, marked, target), "invoice 7")


def transplanted(source: np.ndarray, marked: np.ndarray, target: np.ndarray) -> np.ndarray:
    return np.clip(target + marked - source, 0, 1).astype(np.float32)

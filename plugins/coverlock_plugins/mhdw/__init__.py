"""MHDW-style: a watermark bound to its picture by a hand-crafted hash of block-DCT comparisons.

Lu, Sun, Hsu and Chang (2006) mixed a media hash into the watermark long before networks did. What
could be read of that work says that it does, and not exactly how, so this is NOT claimed to be
their method: it keeps the idea (compare DCT magnitudes of blocks, combine the bits with the
payload), leaves out the mesh and the detector, and is called "MHDW-style" wherever it is reported.
The lock around the hash is CoverLock's own, embedding once, so that only the hash differs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from coverlock_sdk import (
    Calibration,
    CoverLock,
    Defense,
    ImageHash,
    LockedWatermark,
    Watermark,
    hookimpl,
)
from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.hookspecs import Register
from coverlock_sdk.images.picture import LUMA
from coverlock_sdk.locking.coverlock import DEFAULT_FPR
from coverlock_sdk.locking.embedding import ROUNDS
from coverlock_sdk.locking.statistics import Rule

SIDE, BLOCK = 256, 32
GRID = SIDE // BLOCK
"""A picture is 8 x 8 blocks of 32 x 32 pixels."""

FREQUENCIES = ((0, 1), (1, 0), (2, 0), (1, 1), (0, 2), (0, 3), (1, 2), (2, 1))
"""The lowest ones after the mean, in zig-zag order: (vertical, horizontal)."""


class MhdwHash(ImageHash):
    """A bit says in which of two blocks a frequency is stronger.

    For each of eight frequencies the 64 blocks are paired by ``seed``, every block once: 8 times
    32 comparisons are 256 bits, no two of which look at the same number.
    """

    name = "mhdw"
    input_size = (SIDE, SIDE)
    # Fitted to the held-out part of the COCO training photos, each seen as it is and under one
    # distortion of the training distribution.
    calibration = Calibration(scale=3.1348, power=0.1475)

    def __init__(self, seed: int = 0) -> None:
        self._pairs = block_pairs(seed)

    def logits(self, images: Images) -> Logits:
        """The difference of two magnitudes, for each comparison: (N, 256)."""
        magnitudes = block_magnitudes(images)
        first = np.take_along_axis(magnitudes, self._pairs[None, ..., 0], axis=2)  # (N, 8, 32)
        second = np.take_along_axis(magnitudes, self._pairs[None, ..., 1], axis=2)
        return (first - second).reshape(len(images), -1)


def block_magnitudes(images: Images) -> npt.NDArray[np.float32]:
    """|DCT| of each luminance block at each of the frequencies: (N, 8, 64)."""
    luminance = np.einsum("c,nchw->nhw", LUMA, images)
    blocks = luminance.reshape(-1, GRID, BLOCK, GRID, BLOCK).swapaxes(2, 3)
    spectra = _dct() @ blocks @ _dct().T  # (N, 8, 8, 32, 32)
    low = [spectra[..., down, across].reshape(len(images), -1) for down, across in FREQUENCIES]
    return np.abs(np.stack(low, axis=1))


@cache
def _dct() -> npt.NDArray[np.float32]:
    """The orthonormal DCT-II matrix (frequencies, positions) of a block."""
    frequency, position = np.arange(BLOCK)[:, None], np.arange(BLOCK) + 0.5
    basis = np.cos(np.pi * frequency * position / BLOCK) * np.sqrt(2 / BLOCK)
    basis[0] /= np.sqrt(2)
    return basis.astype(np.float32)


def block_pairs(seed: int) -> npt.NDArray[np.int64]:
    """Which blocks are compared, (8, 32, 2), the same on every platform."""
    rng = np.random.RandomState(seed)  # its stream is frozen; that of a Generator is not
    orders = [rng.permutation(GRID * GRID) for _ in FREQUENCIES]
    return np.stack(orders).reshape(len(FREQUENCIES), -1, 2)


@dataclass(frozen=True)
class Mhdw(Defense):
    """The MHDW-style baseline: payload XOR a hand-crafted hash, bound as CoverLock binds."""

    name: ClassVar[str] = "mhdw"

    key: Any = field(default=None, repr=False)
    fpr: float = DEFAULT_FPR
    rule: Rule = "soft"
    seed: int = 0
    """Decides which blocks are compared."""
    rounds: int = ROUNDS
    """How often a picture may be marked anew until its code settles."""

    def protect(self, watermark: Watermark) -> LockedWatermark:
        """Bind ``watermark`` to its pictures by the hand-crafted hash."""
        lock = CoverLock(
            MhdwHash(self.seed), self.key, self.fpr, self.rule, self.rounds, harden=False
        )
        return lock.protect(watermark)


@hookimpl
def register_hashes(register: Register) -> None:
    """Offer the hash, to be compared with others."""
    register(MhdwHash)


@hookimpl
def register_defenses(register: Register) -> None:
    """Offer the defence under its name."""
    register(Mhdw)

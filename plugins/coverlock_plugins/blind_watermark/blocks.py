"""The blocks of a picture at once, where blind-watermark works through them one by one.

The library hands its blocks to a pool. This one does the same arithmetic on arrays, which is about
ten times as fast: a 4 x 4 block is transformed (DCT), shuffled under the password, and decomposed.
A bit says in which half of a quantisation step its two largest singular values lie.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

SIDE = 4
Blocks = npt.NDArray[np.float32]


class AllBlocks:
    """A pool of the library: marks blocks that come with an index, and reads the others."""

    def __init__(self, core: Any) -> None:
        self._core = weakref.proxy(core)  # which holds this: a cycle would keep large pictures
        self._steps = np.array([core.d1, core.d2], np.float32)

    def map(self, function: Callable[[Any], Any], arguments: Sequence[tuple[Any, ...]]) -> Any:
        """What ``function`` would answer to each of ``arguments``."""
        blocks = np.stack([block for block, *_ in arguments])
        order = np.stack([shuffler for _, shuffler, *_ in arguments])
        spectra = DCT @ blocks @ DCT.T
        shuffled = np.take_along_axis(spectra.reshape(len(blocks), -1), order, axis=1)
        matrices = shuffled.reshape(blocks.shape)
        if len(arguments[0]) == 3:
            bits = self._core.wm_bit[np.arange(len(blocks)) % self._core.wm_size]
            return self._marked(matrices, order, bits)
        return self._votes(np.linalg.svd(matrices, compute_uv=False))

    def _marked(
        self, matrices: Blocks, order: npt.NDArray[np.int64], bits: npt.NDArray[np.bool_]
    ) -> Blocks:
        """The blocks with their two largest singular values in the middle of a bit's half."""
        left, values, right = np.linalg.svd(matrices)
        halves = 0.25 + 0.5 * bits[:, None]
        values[:, :2] = (values[:, :2] // self._steps + halves) * self._steps
        shuffled = ((left * values[:, None]) @ right).reshape(len(matrices), -1)
        spectra = np.empty_like(shuffled)
        np.put_along_axis(spectra, order, shuffled, axis=1)
        marked: Blocks = DCT.T @ spectra.reshape(matrices.shape) @ DCT
        return marked

    def _votes(self, values: Blocks) -> npt.NDArray[np.float64]:
        """Each block's vote from 0 to 1; the largest singular value has three quarters of it."""
        upper = values[:, :2] % self._steps > self._steps / 2
        return upper @ np.array([0.75, 0.25])


def _dct_matrix() -> Blocks:
    """The orthonormal DCT-II of a column."""
    frequency, position = np.arange(SIDE)[:, None], np.arange(SIDE) + 0.5
    matrix = np.cos(np.pi * frequency * position / SIDE) * np.sqrt(2 / SIDE)
    matrix[0] /= np.sqrt(2)
    return matrix.astype(np.float32)


DCT = _dct_matrix()

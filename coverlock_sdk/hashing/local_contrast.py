"""Local contrast evened out: the constants that the NumPy and the PyTorch version share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

REACH = 1 / 12
"""Deviation of the neighbourhood that sets the local contrast, as a share of a window."""

FLOOR = 0.25
"""The local contrast, as a share of the window's, below which detail is left faint."""


def blur_matrix(side: int) -> npt.NDArray[np.float32]:
    """A Gaussian blur of an axis of ``side`` samples as a matrix whose rows sum to one."""
    distances = (np.arange(side)[:, None] - np.arange(side)) / (REACH * side)
    weights = np.exp(-0.5 * np.square(distances))
    matrix: npt.NDArray[np.float32] = (weights / weights.sum(axis=1, keepdims=True)).astype(
        np.float32
    )
    return matrix

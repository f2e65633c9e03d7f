"""How large a change a picture hides at each pixel: the just noticeable difference.

The classical pixel model (Chou and Li 1995; the two effects combined as by Yang et al. 2005): dark
and bright backgrounds hide more than mid-grey ones, and busy places more than flat ones.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Images
from coverlock_sdk.images.picture import LUMA

OVERLAP = 0.3
"""The share of the smaller effect that is lost because the larger one is there already."""


def visibility_threshold(image: Images) -> npt.NDArray[np.float32]:
    """The threshold (1, H, W), in units of the range [0, 1], of a picture (3, H, W)."""
    grey = 255 * np.tensordot(LUMA, image, axes=1)
    background = _mean_5x5(grey)
    luminance = np.where(
        background <= 127,
        17 * (1 - np.sqrt(np.maximum(background, 0) / 127)) + 3,
        3 / 128 * (background - 127) + 3,
    )
    slope = _slope(grey)
    contrast = 16 * slope**2.4 / (slope**2 + 26**2)
    both = luminance + contrast - OVERLAP * np.minimum(luminance, contrast)
    threshold: npt.NDArray[np.float32] = (both / 255).astype(np.float32)[None]
    return threshold


def _mean_5x5(grey: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    padded = np.pad(grey, 2, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (5, 5))
    return windows.mean(axis=(-1, -2))


def _slope(grey: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The magnitude of the Sobel gradient, in grey levels per pixel."""
    p = np.pad(grey, 1, mode="edge")
    down = p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:] - p[:-2, :-2] - 2 * p[:-2, 1:-1] - p[:-2, 2:]
    right = p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:] - p[:-2, :-2] - 2 * p[1:-1, :-2] - p[2:, :-2]
    return np.hypot(down, right) / 8

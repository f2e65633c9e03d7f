"""How much a pixel may change before the eye notices: the model that WAM weighs its residual by.

A bright or dark surrounding hides changes (luminance adaptation), and so does an edge (contrast
masking); of two that meet, the weaker counts less.
"""

from __future__ import annotations

import numpy as np

from coverlock_sdk.arrays import Images

LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)[:, None, None]
SURROUNDING = np.array(
    [[1, 1, 1, 1, 1], [1, 2, 2, 2, 1], [1, 2, 0, 2, 1], [1, 2, 2, 2, 1], [1, 1, 1, 1, 1]],
    np.float32,
)
SOBEL = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.float32)
OVERLAP = np.float32(0.3)
EDGES = np.float32(0.117)


def just_noticeable(image: Images) -> Images:
    """The change (H, W), of full scale 1, that just shows in a picture (3, H, W)."""
    grey = 255 * (LUMINANCE * image).sum(axis=0)
    around = _filtered(grey, SURROUNDING) / SURROUNDING.sum()
    dark = 17 * (1 - np.sqrt(np.minimum(around, 127) / 127 + 1e-5))
    adaptation = np.where(around <= 127, dark, 3 / 128 * (around - 127) + 3)
    slope = np.hypot(_filtered(grey, SOBEL), _filtered(grey, SOBEL.T))
    masking = EDGES * 16 * slope**2.4 / (slope**2 + 26**2)
    noticed = adaptation + masking - OVERLAP * np.minimum(adaptation, masking)
    visibility: Images = (np.maximum(noticed, 0) / 255).astype(np.float32)
    return visibility


def _filtered(plane: Images, kernel: Images) -> Images:
    """The correlation of a plane with a kernel, with zeros around it."""
    reach = len(kernel) // 2
    height, width = plane.shape
    padded = np.pad(plane, reach)
    total = np.zeros_like(plane)
    for row, weights in enumerate(kernel):
        for column, weight in enumerate(weights):
            total += weight * padded[row : row + height, column : column + width]
    return total

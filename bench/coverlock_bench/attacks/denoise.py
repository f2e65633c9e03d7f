"""The copy attack (Kutter, Voloshynovskiy, Herrigel 2000): what a denoiser removes is the mark.

The denoiser is the adaptive Wiener filter of that paper: where a neighbourhood varies more than the
noise does, its detail is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from coverlock_bench.attacks.residuals import first, pasted
from coverlock_sdk import Attack
from coverlock_sdk.arrays import Images
from coverlock_sdk.errors import needs


@dataclass(frozen=True)
class DenoisedResidual(Attack):
    """The difference of marked pictures and their denoised versions, averaged over references."""

    name: ClassVar[str] = "denoise"

    references: int = 1
    window: int = 5
    """Side of the neighbourhood whose mean and variance decide, in pixels."""
    strength: float = 1.0
    """Factor on the residual: a denoiser finds only part of a mark."""

    def forge(self, references: Images, targets: Images) -> Images:
        """Add what denoising takes from the first references to every target."""
        marked = first(references, self.references)
        residual = (marked - wiener(marked, self.window)).mean(axis=0)
        return pasted(residual, targets, self.strength)


def wiener(images: Images, window: int) -> Images:
    """``images`` (N, 3, H, W) without their noise, whose variance is the median local one."""
    with needs("the attack 'denoise'", "SciPy", "bench"):
        from scipy.ndimage import uniform_filter
    across = partial(uniform_filter, size=(1, 1, window, window))
    mean = across(images)
    variance = np.maximum(across(np.square(images)) - np.square(mean), 0)
    noise = np.median(variance, axis=(-2, -1), keepdims=True)
    kept = np.maximum(variance - noise, 0) / np.maximum(variance, 1e-12)
    denoised: Images = mean + kept * (images - mean)
    return denoised

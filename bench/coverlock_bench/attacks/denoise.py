"""The copy attack (Kutter, Voloshynovskiy, Herrigel 2000): takes what a denoiser removes.

The denoiser is that paper's adaptive Wiener filter. It keeps the detail of neighbourhoods that
vary more than the noise.
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
    """Subtracts denoised versions from marked pictures, and averages over the references."""

    name: ClassVar[str] = "denoise"

    references: int = 1
    window: int = 5
    """Side of the filter's neighbourhood in pixels."""
    strength: float = 1.0
    """Factor for the residual, because a denoiser finds only part of a mark."""

    def forge(self, references: Images, targets: Images) -> Images:
        """Add what denoising removes from the first references to every target."""
        marked = first(references, self.references)
        residual = (marked - wiener(marked, self.window)).mean(axis=0)
        return pasted(residual, targets, self.strength)


def wiener(images: Images, window: int) -> Images:
    """Remove noise from ``images`` (N, 3, H, W); its variance is the median local variance."""
    with needs("the attack 'denoise'", "SciPy", "bench"):
        from scipy.ndimage import uniform_filter
    across = partial(uniform_filter, size=(1, 1, window, window))
    mean = across(images)
    variance = np.maximum(across(np.square(images)) - np.square(mean), 0)
    noise = np.median(variance, axis=(-2, -1), keepdims=True)
    kept = np.maximum(variance - noise, 0) / np.maximum(variance, 1e-12)
    denoised: Images = mean + kept * (images - mean)
    return denoised

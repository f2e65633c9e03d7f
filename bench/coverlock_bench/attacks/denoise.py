"""The copy attack (Kutter, Voloshynovskiy, Herrigel 2000): what a denoiser removes is the mark.

The denoiser is the adaptive Wiener filter of that paper: where a neighbourhood varies more than the
noise does, its detail is kept. It is a dozen lines of NumPy, which spares users a dependency on an
imaging library for the weakest attacker of the audit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coverlock_sdk import Attack
from coverlock_sdk.arrays import Images
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.images.resampling import resample


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
        if len(references) < self.references:
            raise CoverLockError(
                f"this attack averages over {self.references} marked pictures, "
                f"but there are {len(references)}"
            )
        marked = references[: self.references]
        residual = (marked - wiener(marked, self.window)).mean(axis=0)
        residual = self.strength * resample(residual, targets.shape[-2:])
        return np.clip(targets + residual, 0.0, 1.0)


def wiener(images: Images, window: int) -> Images:
    """``images`` (N, 3, H, W) without their noise, whose variance is the median local one."""
    mean = _local_mean(images, window)
    variance = np.maximum(_local_mean(np.square(images), window) - np.square(mean), 0)
    noise = np.median(variance, axis=(-2, -1), keepdims=True)
    kept = np.maximum(variance - noise, 0) / np.maximum(variance, 1e-12)
    denoised: Images = mean + kept * (images - mean)
    return denoised


def _local_mean(images: Images, window: int) -> Images:
    """The mean of the square neighbourhood of every pixel, edges mirrored."""
    before, after = window // 2, window - 1 - window // 2
    total = images
    for axis in (-2, -1):
        padding = [(0, 0)] * total.ndim
        padding[axis] = (before, after)
        padded = np.pad(total, padding, mode="symmetric")
        windows = np.lib.stride_tricks.sliding_window_view(padded, window, axis=axis)
        total = windows.mean(axis=-1)
    return total

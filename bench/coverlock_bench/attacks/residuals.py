"""Helpers for attacks that lift a residual."""

from __future__ import annotations

import numpy as np

from coverlock_sdk import CoverLockError
from coverlock_sdk.arrays import Images
from coverlock_sdk.images.resampling import resample


def first(pictures: Images, count: int, kind: str = "marked") -> Images:
    """The pictures that an attack averages over."""
    if len(pictures) < count:
        raise CoverLockError(
            f"this attack averages over {count} {kind} pictures, but there are {len(pictures)}: "
            "pass more, or lower 'references'"
        )
    return pictures[:count]


def pasted(residual: Images, targets: Images, strength: float = 1.0) -> Images:
    """Add a residual (3, H, W), resampled to the targets' size, to every target."""
    return np.clip(targets + strength * resample(residual, targets.shape[-2:]), 0.0, 1.0)

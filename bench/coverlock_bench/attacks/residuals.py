"""What attacks that lift a residual have in common."""

from __future__ import annotations

import numpy as np

from coverlock_sdk.arrays import Images
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.images.resampling import resample


def first(pictures: Images, count: int, kind: str = "marked") -> Images:
    """The pictures that an attack averages over."""
    if len(pictures) < count:
        raise CoverLockError(
            f"this attack averages over {count} {kind} pictures, but there are {len(pictures)}: "
            "give more, or lower 'references'"
        )
    return pictures[:count]


def pasted(residual: Images, targets: Images, strength: float = 1.0) -> Images:
    """Every target with a residual (3, H, W) on it, which is brought to the targets' size."""
    return np.clip(targets + strength * resample(residual, targets.shape[-2:]), 0.0, 1.0)

"""Windows about the centre of a picture, as the matrices that resample them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def window_matrix(source: int, target: int, zoom: float) -> npt.NDArray[np.float32]:
    """Weights (target, source) that bring the central share ``zoom`` of an axis to ``target``.

    The filter is that of ``coverlock_sdk.images.resampling``, of which this is the general case.
    """
    scale = zoom * source / target
    centres = (1 - zoom) * source / 2 + (np.arange(target) + 0.5) * scale
    distances = np.abs(np.arange(source) + 0.5 - centres[:, None]) / max(scale, 1.0)
    weights = np.clip(1.0 - distances, 0.0, None)
    matrix: npt.NDArray[np.float32] = (weights / weights.sum(axis=1, keepdims=True)).astype(
        np.float32
    )
    return matrix

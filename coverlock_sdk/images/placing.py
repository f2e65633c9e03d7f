"""A picture put back in the place that it has in the original frame."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image

from coverlock_sdk.arrays import Images
from coverlock_sdk.hashing.frames import Frame
from coverlock_sdk.threads import one_thread


@one_thread
def placed(view: Images, frame: Frame) -> Images:
    """The original frame (3, H, W) as far as ``view`` (3, H, W) shows it.

    Around it the outermost pixels go on. A decoder that expects bits in certain places finds them
    there, which it does not in a crop that fills its whole view.
    """
    if frame.turn:
        return _turned(view, frame)
    rows = _axis(view.shape[1], frame.side, frame.y)
    columns = _axis(view.shape[2], frame.side, frame.x)
    return np.clip(np.matmul(np.matmul(rows, view), columns.T), 0, 1)


def _axis(samples: int, side: float, centre: float) -> Images:
    """Weights (samples, samples): each place of the frame, from the nearest pixels of the view."""
    places = ((np.arange(samples) + 0.5) / samples - centre) / side + 0.5
    positions = np.clip(places * samples - 0.5, 0, samples - 1)
    weights = 1 - np.abs(positions[:, None] - np.arange(samples))
    return np.maximum(weights, 0).astype(np.float32)


def _turned(view: Images, frame: Frame) -> Images:
    height, width = view.shape[1:]
    angle = math.radians(frame.turn)
    cos, sin = math.cos(angle) / frame.side, math.sin(angle) / frame.side
    x, y = frame.x * width, frame.y * height
    matrix = (
        *(cos, sin, width / 2 - cos * x - sin * y),
        *(-sin, cos, height / 2 + sin * x - cos * y),
    )

    def transformed(values: Images) -> Images:
        image = Image.fromarray(np.ascontiguousarray(values))
        bilinear = Image.Resampling.BILINEAR
        return np.asarray(image.transform((width, height), Image.Transform.AFFINE, matrix, bilinear))

    seen = transformed(np.ones((height, width), dtype=np.float32))
    mean = view.mean(axis=(1, 2), dtype=np.float32)
    return np.stack(
        [transformed(v - m) * (seen > 0) + m for v, m in zip(view, mean, strict=True)]
    )

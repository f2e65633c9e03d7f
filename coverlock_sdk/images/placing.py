"""A picture put back in the place that it has in the original frame."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image

from coverlock_sdk.arrays import Images
from coverlock_sdk.hashing.frames import Frame


def placed(view: Images, frame: Frame) -> Images:
    """The original frame (3, H, W) as far as ``view`` (3, H, W) shows it.

    Around it the outermost pixels go on. A decoder that expects bits in certain places finds them
    there, which it does not in a crop that fills its whole view.
    """
    if frame.turn:
        return _turned(view, frame)
    down = _along(view, frame.side, frame.y)
    return _along(down.transpose(0, 2, 1), frame.side, frame.x).transpose(0, 2, 1)


def _along(values: Images, side: float, centre: float) -> Images:
    """The middle axis of ``values`` (3, N, M) put in its place, between the nearest samples."""
    samples = values.shape[1]
    places = ((np.arange(samples) + 0.5) / samples - centre) / side + 0.5
    positions = np.clip(places * samples - 0.5, 0, samples - 1)
    before = np.minimum(positions.astype(np.int64), samples - 2)
    share = (positions - before).astype(np.float32)[:, None]
    return values[:, before] * (1 - share) + values[:, before + 1] * share


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
        return np.asarray(
            image.transform((width, height), Image.Transform.AFFINE, matrix, bilinear)
        )

    seen = transformed(np.ones((height, width), dtype=np.float32))
    mean = view.mean(axis=(1, 2), dtype=np.float32)
    return np.stack([transformed(v - m) * (seen > 0) + m for v, m in zip(view, mean, strict=True)])

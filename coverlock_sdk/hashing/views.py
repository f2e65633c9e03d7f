"""A thumbnail seen under many frames: its products with tapered cosines of the original frame.

A search begins on smaller copies of the thumbnail, which show the low waves just as well.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from coverlock_sdk.arrays import Floats, Images
from coverlock_sdk.frames import Frame

SIDE = 128
"""Side of the thumbnail."""

OPPONENT: Images = np.array(
    [[0.299, 0.587, 0.114], [0.5, -0.25, -0.25], [-0.25, -0.25, 0.5]], dtype=np.float32
)
"""Light, reddishness and bluishness of RGB."""

TAPER = 0.3
"""The share of a side over which the taper rises from zero at the border to one."""

Frames = Floats
"""Frames as rows (N, 4): side, x, y and turn."""

Spectra = npt.NDArray[np.float32]
"""Products (N, waves down, waves across) of one map with all cosines, for N frames."""


def rows_of(*frames: Frame) -> Frames:
    """Frames as rows."""
    return np.array([frame[:4] for frame in frames], dtype=np.float64)


class View:
    """Light and colours of one thumbnail, at three sizes."""

    def __init__(self, thumbnail: Images, aspect: float = 1.0) -> None:
        maps = np.einsum("oc,chw->ohw", OPPONENT, thumbnail)
        self.aspect = aspect
        self._maps = {SIDE: maps, SIDE // 2: (half := _halved(maps)), SIDE // 4: _halved(half)}

    def spectra(
        self, frames: Frames, waves: int, colours: int, size: int | None = None
    ) -> list[Spectra]:
        """The spectra of light, to ``waves`` half-waves, and of both colours, to ``colours``.

        With a ``size``, light is seen at that size, and colours at a quarter of the thumbnail's.
        """
        light, colour = (SIDE, SIDE) if size is None else (size, SIDE // 4)
        kinds = [(self._maps[light][:1], waves), (self._maps[colour][1:], colours)]
        if frames[:, 3].any():
            return [each for maps, cut in kinds for each in self._turned(maps, frames, cut)]
        found = []
        for maps, cut in kinds:
            axes = _axes_of(frames, cut, maps[0].shape[0])
            found += [_upright(each, axes) for each in maps]
        return found

    def _turned(self, maps: Images, frames: Frames, waves: int) -> list[Spectra]:
        """Spectra of maps that are turned back first."""
        turns, which = np.unique(frames[:, 3], return_inverse=True)
        angles = np.radians(turns)
        stretch = np.cos(angles) + np.abs(np.sin(angles)) * max(self.aspect, 1 / self.aspect)
        wider = frames * np.stack([stretch[which], *np.ones((3, len(frames)))], axis=1)
        axes = _axes_of(wider, waves, maps[0].shape[0])
        turned, seen = _turned(maps, angles, stretch, self.aspect)
        return [_masked(each[which], seen[which], axes) for each in turned]


class _Axes(NamedTuple):
    """Tapered cosines (N, waves + 1, size) of the rows and the columns of N frames."""

    rows: Spectra
    columns: Spectra


FEW = 40
"""More frames than this are a fixed grid; its cosines, and those of single frames, are kept."""


def _axes_of(frames: Frames, waves: int, size: int) -> _Axes:
    kept = len(frames) == 1 or len(frames) > FEW
    axes = _remembered_axes if kept else _remembered_axes.__wrapped__
    return axes(frames.tobytes(), waves, size)


@lru_cache(maxsize=8)
def _remembered_axes(frames: bytes, waves: int, size: int) -> _Axes:
    rows = np.frombuffer(frames).reshape(-1, 4)
    both = (tapered_cosines(rows[:, places], waves, size) for places in ([0, 2], [0, 1]))
    return _Axes(*both)


def tapered_cosines(parts: Floats, waves: int, size: int = SIDE) -> Spectra:
    """The tapered cosines (N, waves + 1, size) of axes that show parts of the frame's axis.

    A part is the share of the frame's side that is seen, and where its centre lies.
    """
    side, centre = parts.astype(np.float32).T[:, :, None]
    grid = (np.arange(size, dtype=np.float32) + np.float32(0.5)) / size - np.float32(0.5)
    places = centre + grid * side
    border = np.clip(np.minimum(places, 1 - places), 0, np.float32(TAPER))
    angles = np.float32(np.pi) * places
    found = np.empty((len(side), waves + 1, size), dtype=np.float32)
    found[:, 0] = np.square(np.sin(np.float32(np.pi / 2 / TAPER) * border)) * (side / size)
    found[:, 1] = found[:, 0] * np.cos(angles)
    known = 1
    while known < waves:
        # cos((m + j) a) = 2 cos(m a) cos(j a) - cos((m - j) a), for many j at once.
        more = min(known, waves - known)
        new = found[:, known + 1 : known + more + 1]
        np.multiply(2 * np.cos(known * angles)[:, None], found[:, 1 : more + 1], out=new)
        new -= found[:, known - more : known][:, ::-1]
        known += more
    return found


def _upright(values: Images, axes: _Axes) -> Spectra:
    """Products of one map with all cosines, its tapered mean removed."""
    count, waves, size = axes.rows.shape
    down = (axes.rows.reshape(count * waves, size) @ values).reshape(count, waves, size)
    flat = axes.rows.sum(axis=2)[:, :, None] * axes.columns.sum(axis=2)[:, None]
    return _without_mean(np.matmul(down, axes.columns.transpose(0, 2, 1)), flat)


def _masked(values: Images, seen: Images, axes: _Axes) -> Spectra:
    """The same where each frame has a map (N, size, size) of its own, shown where ``seen``."""
    across = axes.columns.transpose(0, 2, 1)
    spectra = np.matmul(np.matmul(axes.rows, values), across)
    return _without_mean(spectra, np.matmul(np.matmul(axes.rows, seen), across))


def _without_mean(spectra: Spectra, flat: Spectra) -> Spectra:
    """Spectra less those of a flat picture of the same mean."""
    flat *= spectra[:, :1, :1] / np.maximum(flat[:, :1, :1], np.float32(1e-12))
    spectra -= flat
    return spectra


def _halved(maps: Images) -> Images:
    pairs = maps[:, ::2] + maps[:, 1::2]
    return (pairs[:, :, ::2] + pairs[:, :, 1::2]) * np.float32(0.25)


def _turned(maps: Images, angles: Floats, stretch: Floats, aspect: float) -> tuple[Images, Images]:
    """Maps turned back by ``angles``, ``stretch`` times as wide as the picture: (maps, angles,
    size, size), and where they show."""
    size = maps[0].shape[0]
    images = [Image.fromarray(each) for each in maps]
    turned = np.empty((len(maps), len(angles), size, size), dtype=np.float32)
    seen = np.empty((len(angles), size, size), dtype=np.float32)
    grid = np.arange(size, dtype=np.float32) + np.float32(0.5 - size / 2)
    for row, (angle, wider) in enumerate(zip(angles, stretch, strict=True)):
        cos, sin = float(np.cos(angle) * wider), float(np.sin(angle) * wider)
        (a, b), (c, d) = matrix = (cos, sin / aspect), (-sin * aspect, cos)
        half = size / 2
        affine = (a, b, half * (1 - a - b), c, d, half * (1 - c - d))
        for channel, image in enumerate(images):
            turned[channel, row] = image.transform(
                (size, size), Image.Transform.AFFINE, affine, Image.Resampling.BICUBIC
            )
        inside = [half + 0.5 - np.abs(p * grid + q * grid[:, None]) for p, q in matrix]
        seen[row] = np.clip(inside[0], 0, 1) * np.clip(inside[1], 0, 1)
    turned *= seen
    return turned, seen

"""Where a picture differs from the signed thumbnail of it: a hint, not a proof.

The lock says where a picture comes from, not that it is unaltered. Where a manifest holds a
thumbnail, both are brought to one small size, changes of brightness and contrast are allowed for,
and what still differs is compared with what compression and blur do to such detail.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from coverlock_sdk.arrays import Floats, Images
from coverlock_sdk.images.codecs import load_image
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.picture import Picture

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

CELLS = 16
"""The map has so many rows and columns."""

SIDE = 128
"""Both pictures are compared at this size."""

THUMBNAIL_SIDE = 256
THUMBNAIL_QUALITY = 90

ALTERED = 4.0
"""The least score of an altered cell: how many times as much differs as in most of the picture.

This and the numbers below were chosen on training photos: see docs/content-credentials.md.
"""

INCOMPARABLE = 1.0
"""More than this differs in most of the picture where it was cropped, turned or redrawn."""

GAINS = (0.5, 2.0)
"""Changes of contrast that are not taken for alterations."""

_DETAIL, _FLOOR = 0.25, 0.01  # how much of the local detail, and of anything, may differ
_LEAST_USUAL = 0.5  # so that a picture that hardly changed does not make trifles stand out
_BLACK, _WHITE = 0.03, 0.97
_LEAST_SPREAD = 0.02
_FITTINGS = 10


@dataclass(frozen=True)
class AlterationMap:
    """Which cells of a picture seem altered, row by row from the top left."""

    scores: Floats
    """(CELLS, CELLS); at least ``ALTERED`` where a cell seems altered."""
    usual: float
    """What differs in most of the picture, compression and blur allowed for."""

    @property
    def altered(self) -> Any:
        """(CELLS, CELLS) of booleans."""
        return self.scores >= ALTERED

    @property
    def comparable(self) -> bool:
        """Whether the two pictures lie on each other, so that the map means anything."""
        return self.usual <= INCOMPARABLE

    def __str__(self) -> str:
        return "\n".join("".join(".#"[int(cell)] for cell in row) for row in self.altered)

    def shown_on(self, picture: Picture) -> PilImage:
        """The picture in pale grey, with the cells that seem altered in red."""
        from PIL import Image

        height, width = picture.size
        grey = Image.fromarray(picture.to_bytes()).convert("L").convert("RGB")
        pale = Image.blend(grey, Image.new("RGB", grey.size, "white"), 0.5)
        red = Image.blend(grey, Image.new("RGB", grey.size, "red"), 0.5)
        cells = Image.fromarray(np.uint8(255) * self.altered.astype(np.uint8))
        return Image.composite(red, pale, cells.resize((width, height), Image.Resampling.NEAREST))

    def to_dict(self) -> dict[str, Any]:
        """The map as plain JSON values."""
        return {
            "altered_share": float(self.altered.mean()),
            "cells": str(self).split("\n"),
        }


def thumbnail_of(picture: Picture) -> bytes:
    """A small JPEG of a picture, as manifests hold it."""
    from PIL import Image

    height, width = picture.size
    scale = min(1.0, THUMBNAIL_SIDE / max(height, width))
    size = (max(1, round(height * scale)), max(1, round(width * scale)))
    file = io.BytesIO()
    image = Image.fromarray(picture.to_bytes(size))
    image.save(file, format="JPEG", quality=THUMBNAIL_QUALITY)
    return file.getvalue()


def alterations(thumbnail: bytes, picture: Picture) -> AlterationMap:
    """Where ``picture`` differs from its signed ``thumbnail``."""
    signed = read(load_image(thumbnail)).view((SIDE, SIDE))
    seen = picture.view((SIDE, SIDE))
    exposure = np.array([_exposure(*pair) for pair in zip(signed, seen, strict=True)], np.float32)
    bright = exposure[:, :1, None] * signed + exposure[:, 1:, None]
    difference = np.abs(_smooth(seen - np.clip(bright, 0, 1))).max(axis=0)
    relative = _cells(difference) / (_FLOOR + _DETAIL * _cells(_detail(bright)))
    usual = float(np.median(relative))
    return AlterationMap(relative / max(usual + 0.05, _LEAST_USUAL), usual)


def _exposure(signed: Images, seen: Images) -> tuple[float, float]:
    """Gain and offset that lead from one channel of ``signed`` to ``seen``, most pixels agreeing.

    Pixels that are black or white in ``seen`` were cut off and tell nothing.
    """
    inside = (seen > _BLACK) & (seen < _WHITE)
    values, wanted = signed[inside].astype(np.float64), seen[inside].astype(np.float64)
    if values.size < SIDE or values.std() < _LEAST_SPREAD:
        return 1.0, 0.0
    weights = np.ones_like(values)
    for _ in range(_FITTINGS):
        x, y = np.average(values, weights=weights), np.average(wanted, weights=weights)
        together = (weights * (values - x) * (wanted - y)).sum()
        gain = float(np.clip(together / (weights * (values - x) ** 2).sum(), *GAINS))
        error = np.abs(gain * (values - x) + y - wanted)
        weights = 1 / np.maximum(error, np.median(error) + 1e-4)
    return gain, float(y - gain * x)


def _detail(picture: Images) -> Images:
    """How much a picture changes from pixel to pixel around each."""
    light = picture.mean(axis=0, keepdims=True)
    down = np.abs(np.diff(light, axis=1, append=light[:, -1:]))
    across = np.abs(np.diff(light, axis=2, append=light[:, :, -1:]))
    detail: Images = _smooth(down + across)[0]
    return detail


def _smooth(images: Images) -> Images:
    """The mean of 3 x 3 neighbours, twice."""
    for _ in range(2):
        padded = np.pad(images, ((0, 0), (1, 1), (1, 1)), mode="edge")
        rows = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
        images = (rows[:, :, :-2] + rows[:, :, 1:-1] + rows[:, :, 2:]) / 9
    return images


def _cells(values: Images) -> Floats:
    """The mean of each cell (CELLS, CELLS)."""
    size = SIDE // CELLS
    cells: Floats = values.reshape(CELLS, size, CELLS, size).mean(axis=(1, 3), dtype=np.float64)
    return cells

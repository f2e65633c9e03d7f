"""What marked and unmarked training pictures go through alike, so that it is no clue.

The published list, without its video codecs, which need a binary that pictures do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from PIL import Image, ImageFilter

from coverlock_sdk.images.distortions import (
    Brightness,
    ColourJitter,
    Contrast,
    Crop,
    Draw,
    Flip,
    GaussianBlur,
    Jpeg,
    Picture,
    Rescaling,
    Rotation,
)


@dataclass(frozen=True)
class Median:
    """Every value replaced by the median of its 3 x 3 neighbourhood."""

    def __call__(self, picture: Picture, rng: np.random.Generator) -> Picture:
        """Return the smoothed picture."""
        return np.asarray(Image.fromarray(picture).filter(ImageFilter.MedianFilter(3)))


@dataclass(frozen=True)
class QuarterTurns:
    """Turned by a multiple of 90 degrees."""

    count: int

    def __call__(self, picture: Picture, rng: np.random.Generator) -> Picture:
        """Return the turned picture."""
        return np.ascontiguousarray(np.rot90(picture, self.count))


@dataclass(frozen=True)
class Perspective:
    """Seen at an angle: each corner drawn inwards, by at most half of ``strength`` of a side."""

    strength: float

    def __call__(self, picture: Picture, rng: np.random.Generator) -> Picture:
        """Return what the moved corners enclose, stretched to the whole frame."""
        height, width = picture.shape[:2]
        inwards = rng.uniform(0, self.strength / 2, (4, 2)) * (width, height)
        corners = np.array([(0, 0), (0, height), (width, height), (width, 0)], dtype=float)
        corners += inwards * np.array([(1, 1), (1, -1), (-1, -1), (-1, 1)])
        # QUAD is bilinear in the corners, which is near enough to a projection for a nuisance.
        quad = tuple(corners.ravel())
        size = (width, height)
        image = Image.fromarray(picture)
        seen = image.transform(size, Image.Transform.QUAD, quad, Image.Resampling.BILINEAR)
        return np.asarray(seen)


AUGMENTATIONS: Mapping[str, Draw] = MappingProxyType(
    {
        "jpeg": lambda rng: Jpeg(int(rng.integers(40, 81))),
        "rescaling": lambda rng: Rescaling(rng.uniform(0.7, 1.5)),
        "crop": lambda rng: Crop(rng.uniform(0.5, 1.0), anywhere=True),
        "rotation": lambda rng: Rotation(rng.uniform(-10, 10)),
        "quarter turns": lambda rng: QuarterTurns(int(rng.integers(1, 4))),
        "flip": lambda rng: Flip(),
        "perspective": lambda rng: Perspective(rng.uniform(0.1, 0.5)),
        "blur": lambda rng: GaussianBlur(rng.uniform(0.4, 2.6)),
        "median": lambda rng: Median(),
        "brightness": lambda rng: Brightness(rng.uniform(0.5, 2.0)),
        "contrast": lambda rng: Contrast(rng.uniform(0.5, 2.0)),
        "colour": lambda rng: ColourJitter(0.5, hue=0.1),
    }
)


def augment(pictures: list[Picture], count: int, rng: np.random.Generator) -> list[Picture]:
    """Put ``pictures``, versions of one scene, through the same ``count`` random changes."""
    for kind in rng.choice(list(AUGMENTATIONS), count, replace=False):
        distortion, seed = AUGMENTATIONS[kind](rng), rng.integers(2**63)
        pictures = [distortion(picture, np.random.default_rng(seed)) for picture in pictures]
    return pictures

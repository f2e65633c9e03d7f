"""What happens to pictures on their way: the paper's evaluation and training distortions.

A distortion takes one 8-bit RGB picture (H, W, 3) at its own size and returns another.
Randomness comes from the generator it is given and from nowhere else.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageEnhance

Picture = npt.NDArray[np.uint8]


class Distortion(Protocol):
    """A change a picture may go through: 8-bit RGB in, 8-bit RGB out."""

    def __call__(self, picture: Picture, rng: np.random.Generator) -> Picture:
        """Return the distorted picture; ``picture`` itself is left alone."""
        ...


def _to_bytes(values: npt.NDArray[np.floating]) -> Picture:
    rounded: Picture = np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return rounded


@dataclass(frozen=True)
class GaussianNoise:
    """Additive noise; ``sigma`` is relative to the range [0, 1]."""

    sigma: float

    def __call__(self, picture: Picture, rng: np.random.Generator) -> Picture:
        noise = rng.standard_normal(picture.shape, dtype=np.float32)
        return _to_bytes(picture + noise * np.float32(self.sigma * 255))


@dataclass(frozen=True)
class Brightness:
    """Every value times ``factor``, clipped."""

    factor: float

    def __call__(self, picture: Picture, rng: np.random.Generator) -> Picture:
        return np.asarray(ImageEnhance.Brightness(Image.fromarray(picture)).enhance(self.factor))


@dataclass(frozen=True)
class Contrast:
    """Distance from the picture's mean grey times ``factor``, clipped."""

    factor: float

    def __call__(self, picture: Picture, rng: np.random.Generator) -> Picture:
        return np.asarray(ImageEnhance.Contrast(Image.fromarray(picture)).enhance(self.factor))


@dataclass(frozen=True)
class GaussianBlur:
    """A Gaussian of standard deviation ``sigma`` pixels, edges mirrored."""

    sigma: float

    def __call__(self, picture: Picture, rng: np.random.Generator) -> Picture:
        radius = max(1, math.ceil(4 * self.sigma))
        kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1) / self.sigma) ** 2)
        kernel = (kernel / kernel.sum()).astype(np.float32)
        blurred = picture.astype(np.float32)
        for axis in (0, 1):
            blurred = _convolve(blurred, kernel, axis)
        return _to_bytes(blurred)


def _convolve(
    values: npt.NDArray[np.float32], kernel: npt.NDArray[np.float32], axis: int
) -> npt.NDArray[np.float32]:
    radius = len(kernel) // 2
    padding = [(radius, radius) if a == axis else (0, 0) for a in range(values.ndim)]
    padded = np.pad(values, padding, mode="symmetric")
    length = values.shape[axis]
    total = np.zeros_like(values)
    for offset, weight in enumerate(kernel):
        window = [slice(None)] * values.ndim
        window[axis] = slice(offset, offset + length)
        total += weight * padded[tuple(window)]
    return total


@dataclass(frozen=True)
class Jpeg:
    """A real JPEG file at ``quality``, chroma halved as most software does."""

    quality: int

    def __call__(self, picture: Picture, rng: np.random.Generator) -> Picture:
        file = io.BytesIO()
        Image.fromarray(picture).save(file, format="JPEG", quality=self.quality)
        return np.asarray(Image.open(file))


@dataclass(frozen=True)
class Crop:
    """Keep ``area`` of the picture's area, its proportions unchanged.

    Without ``anywhere`` the centre is kept. The result is smaller, as a real crop is;
    verification brings it back to the size its networks want.
    """

    area: float
    anywhere: bool = False

    def __call__(self, picture: Picture, rng: np.random.Generator) -> Picture:
        height, width = picture.shape[:2]
        side = math.sqrt(self.area)
        kept_height, kept_width = max(1, round(height * side)), max(1, round(width * side))
        top, left = (height - kept_height) // 2, (width - kept_width) // 2
        if self.anywhere:
            top = int(rng.integers(height - kept_height + 1))
            left = int(rng.integers(width - kept_width + 1))
        return picture[top : top + kept_height, left : left + kept_width]


EVALUATION: Mapping[str, Distortion] = MappingProxyType(
    {
        "noise": GaussianNoise(0.05),
        "brightness": Brightness(1.2),
        "blur": GaussianBlur(1.0),
        "jpeg": Jpeg(70),
        "contrast": Contrast(1.2),
        "crop": Crop(0.80),
    }
)
"""The paper's six evaluation distortions (table 3), by name and in its order."""


Draw = Callable[[np.random.Generator], Distortion]

TRAINING: Mapping[str, Draw] = MappingProxyType(
    {
        "jpeg": lambda rng: Jpeg(int(rng.integers(45, 91))),
        "blur": lambda rng: GaussianBlur(rng.uniform(0.3, 2.0)),
        "noise": lambda rng: GaussianNoise(rng.uniform(0.005, 0.02)),
        "crop": lambda rng: Crop(rng.uniform(0.70, 0.95), anywhere=True),
        "brightness": lambda rng: Brightness(rng.uniform(0.7, 1.3)),
        "contrast": lambda rng: Contrast(rng.uniform(0.7, 1.3)),
    }
)
"""The training distribution of appendix B.3: each entry draws one distortion of its kind."""


def draw_training_distortion(rng: np.random.Generator) -> Distortion:
    """One distortion from the training distribution, every kind equally likely."""
    kinds = list(TRAINING.values())
    return kinds[int(rng.integers(len(kinds)))](rng)

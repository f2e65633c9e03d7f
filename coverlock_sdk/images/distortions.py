"""What happens to pictures in transit: the paper's distortions, and harder ones.

A distortion takes one 8-bit RGB picture (H, W, 3) at its own size and returns another.
All randomness comes from the generator that is passed in.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageEnhance

from coverlock_sdk.arrays import Images, Pixels


class Distortion(Protocol):
    """A change that a picture may go through; the input is not modified."""

    def __call__(self, picture: Pixels, rng: np.random.Generator) -> Pixels: ...


def _to_bytes(values: npt.NDArray[np.floating]) -> Pixels:
    rounded: Pixels = np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return rounded


def _middle(picture: Pixels, height: int, width: int) -> Pixels:
    top, left = (picture.shape[0] - height) // 2, (picture.shape[1] - width) // 2
    return picture[top : top + height, left : left + width]


def _resized(image: Image.Image, scale: float, by: Image.Resampling) -> Image.Image:
    return image.resize([max(1, round(side * scale)) for side in image.size], by)


@dataclass(frozen=True)
class GaussianNoise:
    """Additive noise; ``sigma`` is relative to the range [0, 1]."""

    sigma: float

    def __call__(self, picture: Pixels, rng: np.random.Generator) -> Pixels:
        noise = rng.standard_normal(picture.shape, dtype=np.float32)
        return _to_bytes(picture + noise * np.float32(self.sigma * 255))


@dataclass(frozen=True)
class Brightness:
    """Every value times ``factor``, clipped."""

    factor: float

    def __call__(self, picture: Pixels, rng: np.random.Generator) -> Pixels:
        return np.asarray(ImageEnhance.Brightness(Image.fromarray(picture)).enhance(self.factor))


@dataclass(frozen=True)
class Contrast:
    """Distance from the picture's mean grey times ``factor``, clipped."""

    factor: float

    def __call__(self, picture: Pixels, rng: np.random.Generator) -> Pixels:
        return np.asarray(ImageEnhance.Contrast(Image.fromarray(picture)).enhance(self.factor))


@dataclass(frozen=True)
class GaussianBlur:
    """A Gaussian of standard deviation ``sigma`` pixels, edges mirrored."""

    sigma: float

    def __call__(self, picture: Pixels, rng: np.random.Generator) -> Pixels:
        radius = max(1, math.ceil(4 * self.sigma))
        kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1) / self.sigma) ** 2)
        kernel = (kernel / kernel.sum()).astype(np.float32)
        down = _convolved(picture.astype(np.float32), kernel)
        return _to_bytes(_convolved(down.swapaxes(0, 1), kernel).swapaxes(0, 1))


def _convolved(values: Images, kernel: Images) -> Images:
    """Along the first axis."""
    radius = len(kernel) // 2
    padded = np.pad(values, ((radius, radius), (0, 0), (0, 0)), mode="symmetric")
    total = np.zeros_like(values)
    for offset, weight in enumerate(kernel):
        total += weight * padded[offset : offset + len(values)]
    return total


@dataclass(frozen=True)
class Jpeg:
    """A real JPEG file at ``quality``, chroma halved as most software does."""

    quality: int

    def __call__(self, picture: Pixels, rng: np.random.Generator) -> Pixels:
        file = io.BytesIO()
        Image.fromarray(picture).save(file, format="JPEG", quality=self.quality)
        return np.asarray(Image.open(file))


@dataclass(frozen=True)
class Crop:
    """Keep ``area`` of the picture's area, from the centre or anywhere; proportions stay."""

    area: float
    anywhere: bool = False

    def __call__(self, picture: Pixels, rng: np.random.Generator) -> Pixels:
        height, width = picture.shape[:2]
        side = math.sqrt(self.area)
        kept_height, kept_width = max(1, round(height * side)), max(1, round(width * side))
        if not self.anywhere:
            return _middle(picture, kept_height, kept_width)
        top = int(rng.integers(height - kept_height + 1))
        left = int(rng.integers(width - kept_width + 1))
        return picture[top : top + kept_height, left : left + kept_width]


@dataclass(frozen=True)
class Rotation:
    """Turn by ``degrees`` as photo editors straighten: corners are cut, proportions stay."""

    degrees: float

    def __call__(self, picture: Pixels, rng: np.random.Generator) -> Pixels:
        height, width = picture.shape[:2]
        turned = Image.fromarray(picture).rotate(self.degrees, Image.Resampling.BICUBIC)
        angle = math.radians(abs(self.degrees))
        elongation = max(height, width) / min(height, width)
        inside = 1 / (math.cos(angle) + elongation * math.sin(angle))
        # The outermost pixels are half empty after turning.
        return _middle(np.asarray(turned), int((height - 2) * inside), int((width - 2) * inside))


@dataclass(frozen=True)
class Rescaling:
    """Shown at ``scale`` (bilinearly) and captured, then enlarged again (bicubically)."""

    scale: float

    def __call__(self, picture: Pixels, rng: np.random.Generator) -> Pixels:
        image = Image.fromarray(picture)
        captured = _resized(image, self.scale, Image.Resampling.BILINEAR)
        return np.asarray(captured.resize(image.size, Image.Resampling.BICUBIC))


@dataclass(frozen=True)
class Sharing:
    """What social media do: shrink a picture by ``scale``, then save a JPEG at ``quality``."""

    scale: float
    quality: int

    def __call__(self, picture: Pixels, rng: np.random.Generator) -> Pixels:
        smaller = _resized(Image.fromarray(picture), self.scale, Image.Resampling.LANCZOS)
        return Jpeg(self.quality)(np.asarray(smaller), rng)


@dataclass(frozen=True)
class Flip:
    """Left and right exchanged."""

    def __call__(self, picture: Pixels, rng: np.random.Generator) -> Pixels:
        return np.ascontiguousarray(picture[:, ::-1])


@dataclass(frozen=True)
class ColourJitter:
    """Brightness, contrast and saturation times random factors, then all hues turned alike.

    Factors lie within ``strength`` of 1; hues turn by at most ``hue`` of the colour circle.
    """

    strength: float
    hue: float

    def __call__(self, picture: Pixels, rng: np.random.Generator) -> Pixels:
        image = Image.fromarray(picture)
        for change in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
            image = change(image).enhance(1 + rng.uniform(-self.strength, self.strength))
        turn = round(256 * rng.uniform(-self.hue, self.hue))
        hue, saturation, value = image.convert("HSV").split()
        turned = hue.point([(level + turn) % 256 for level in range(256)])
        return np.asarray(Image.merge("HSV", (turned, saturation, value)).convert("RGB"))


EVALUATION: dict[str, Distortion] = {
    "noise": GaussianNoise(0.05),
    "brightness": Brightness(1.2),
    "blur": GaussianBlur(1.0),
    "jpeg": Jpeg(70),
    "contrast": Contrast(1.2),
    "crop": Crop(0.80),
}
"""The paper's six evaluation distortions (table 3), by name and in its order."""

HARDER: dict[str, Distortion] = {
    "jpeg-30": Jpeg(30),
    "crop-50": Crop(0.50),
    "rotation": Rotation(5),
    "screenshot": Rescaling(0.6),
    "sharing": Sharing(0.6, quality=60),
    "flip": Flip(),
    "colour": ColourJitter(0.3, hue=0.05),
}
"""Distortions that the paper does not evaluate, but that pictures meet."""

TRAINING: tuple[Callable[[np.random.Generator], Distortion], ...] = (
    lambda rng: Jpeg(int(rng.integers(45, 91))),
    lambda rng: GaussianBlur(rng.uniform(0.3, 2.0)),
    lambda rng: GaussianNoise(rng.uniform(0.005, 0.02)),
    lambda rng: Crop(rng.uniform(0.70, 0.95), anywhere=True),
    lambda rng: Brightness(rng.uniform(0.7, 1.3)),
    lambda rng: Contrast(rng.uniform(0.7, 1.3)),
)
"""The training distribution of appendix B.3: each entry draws one distortion of its kind."""


def draw_training_distortion(rng: np.random.Generator) -> Distortion:
    """One distortion from the training distribution, every kind equally likely."""
    return TRAINING[int(rng.integers(len(TRAINING)))](rng)

"""What a picture is drawn from, and small helpers that every kind of picture uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from coverlock_training.kinds.fonts import Face, Font, Fonts, Split, font, fonts_of
from coverlock_training.kinds.words import Words, words_of

Colour = tuple[int, int, int]
Box = tuple[float, float, float, float]
PhotoSource = Callable[[np.random.Generator], Image.Image]
"""Draws a photo of any size."""


@dataclass(frozen=True)
class Desk:
    """Everything a drawing takes: ``style`` decides the template, ``content`` what is in it."""

    style: np.random.Generator
    content: np.random.Generator
    fonts: Fonts
    words: Words
    photo: PhotoSource

    @classmethod
    def open(cls, split: Split, template: Sequence[int], seed: int, photo: PhotoSource) -> Desk:
        """The desk for picture ``seed`` of a ``template``."""
        style = np.random.default_rng([1, *template])
        content = np.random.default_rng([2, *template, seed])
        return cls(style, content, fonts_of(split), words_of(split), photo)

    def font(self, size: float, face: Face | None = None) -> Font:
        """A font of the template at ``size`` pixels."""
        return font(self.fonts.choose(self.style, face), max(6, round(size)))

    def fonts_at(self, *sizes: float, face: Face | None = None) -> list[Font]:
        """One font of the template at several sizes."""
        file = self.fonts.choose(self.style, face)
        return [font(file, max(6, round(size))) for size in sizes]


def sheet(size: tuple[int, int], colour: Colour) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    """A picture of one colour, (width, height), and a pen for it."""
    picture = Image.new("RGB", size, colour)
    return picture, ImageDraw.Draw(picture)


def between(rng: np.random.Generator, low: float, high: float) -> float:
    """A number from a range."""
    return float(rng.uniform(low, high))


def whole(rng: np.random.Generator, low: int, high: int) -> int:
    """A whole number from ``low`` to ``high``, both possible."""
    return int(rng.integers(low, high + 1))


def chance(rng: np.random.Generator, probability: float) -> bool:
    """Whether something with this probability happens."""
    return bool(rng.random() < probability)


def dark(rng: np.random.Generator) -> Colour:
    """A colour to write with."""
    return _colour(rng, 0, 110)


def pale(rng: np.random.Generator) -> Colour:
    """A colour to write on; often plain white."""
    return (255, 255, 255) if chance(rng, 0.5) else _colour(rng, 215, 256)


def vivid(rng: np.random.Generator) -> Colour:
    """A saturated colour."""
    channels = [whole(rng, 0, 90), whole(rng, 60, 210), whole(rng, 150, 255)]
    order = rng.permutation(3)
    return channels[order[0]], channels[order[1]], channels[order[2]]


def ground_and_ink(rng: np.random.Generator, night: float = 0.25) -> tuple[Colour, Colour]:
    """The colours of a surface and of what is written on it; ``night`` of them are dark modes."""
    if chance(rng, night):
        return _colour(rng, 5, 55), _colour(rng, 190, 256)
    return pale(rng), dark(rng)


def mix(first: Colour, second: Colour, share: float) -> Colour:
    """A colour between two."""
    blended = [round(a + (b - a) * share) for a, b in zip(first, second, strict=True)]
    return blended[0], blended[1], blended[2]


def filled(photo: Image.Image, width: int, height: int) -> Image.Image:
    """The central part of a photo that fills a box."""
    scale = max(width / photo.width, height / photo.height)
    size = max(width, round(photo.width * scale)), max(height, round(photo.height * scale))
    enlarged = photo.resize(size, Image.Resampling.BILINEAR)
    left, top = (size[0] - width) // 2, (size[1] - height) // 2
    return enlarged.crop((left, top, left + width, top + height))


def cloud(rng: np.random.Generator, size: tuple[int, int], coarseness: float) -> Image.Image:
    """Smooth random grey, as large as ``size``, with blobs of about ``coarseness`` pixels."""
    small = max(2, round(size[0] / coarseness)), max(2, round(size[1] / coarseness))
    grain = rng.integers(0, 256, (small[1], small[0]), dtype=np.uint8)
    return Image.fromarray(grain).resize(size, Image.Resampling.BICUBIC)


def soft(mask: Image.Image, radius: float) -> Image.Image:
    """A mask with soft edges."""
    return mask.filter(ImageFilter.GaussianBlur(radius))


def _colour(rng: np.random.Generator, low: int, high: int) -> Colour:
    values = rng.integers(low, high, 3)
    return int(values[0]), int(values[1]), int(values[2])

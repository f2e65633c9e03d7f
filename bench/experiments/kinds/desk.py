"""What pictures are drawn with: two sources of randomness, fonts, English words and colours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

Colour = tuple[int, int, int]
Box = tuple[float, float, float, float]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
Photo = Callable[[np.random.Generator], Image.Image]
"""Draws a photo of any size."""

FONTS = ("STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", None)
"""Font files of Matplotlib, and the font inside Pillow: the same on every machine."""
MONO = "DejaVuSansMono"

ENGLISH = """
the of and to in is that for it as was with be by
on not he his but at are this have from or had an they
which one you were all her she there would their we him been has
when who will no more if out so said what up its about into
than them can only other time new some could these two may first then
do any like my now over such our man me even most made after
also did many before must through years where much your way well down should
because each just those people how too little state good very make world still
see own work men day get here between both life being under three never
city business give group toward young days let room within children side social given
order early form cost company market report price interest figure account summary total
"""
WORDS = ENGLISH.split()


@dataclass(frozen=True)
class Desk:
    """Everything that a drawing takes: ``style`` decides the template, ``content`` the rest."""

    style: np.random.Generator
    content: np.random.Generator
    photo: Photo

    @classmethod
    def open(cls, kind: str, place: int, photo: Photo) -> Desk:
        """The desk for picture number ``place`` of a kind."""
        seeds = list(kind.encode())
        style, content = [1, *seeds], [2, *seeds, place]
        return cls(np.random.default_rng(style), np.random.default_rng(content), photo)

    def font(self, size: float) -> Font:
        """A font of the template at ``size`` pixels."""
        return font(FONTS[int(self.style.integers(len(FONTS)))], round(size))


def font(name: str | None, size: int) -> Font:
    """A font file of Matplotlib, or without a name the font inside Pillow."""
    return ImageFont.load_default(size) if name is None else ImageFont.truetype(_file(name), size)


@lru_cache
def _file(name: str) -> str:
    from matplotlib import get_data_path

    return str(Path(get_data_path()) / "fonts" / "ttf" / f"{name}.ttf")


def word(rng: np.random.Generator) -> str:
    """One word in lower case."""
    return WORDS[int(rng.integers(len(WORDS)))]


def title(rng: np.random.Generator, count: int) -> str:
    """Words with capitals, as names and headings have them."""
    return " ".join(word(rng).capitalize() for _ in range(count))


def line(rng: np.random.Generator, letters: int) -> str:
    """Words that fill about ``letters`` letters, but no more."""
    text = word(rng)
    while len(text) < letters:
        text += " " + word(rng)
    return text[:letters].rstrip()


def number(rng: np.random.Generator, digits: int) -> str:
    """A number of so many digits."""
    return "".join(map(str, rng.integers(0, 10, digits)))


def amount(rng: np.random.Generator) -> str:
    """An amount of money."""
    return f"{rng.integers(1, 1000)}.{rng.integers(0, 100):02}"


def date(rng: np.random.Generator) -> str:
    """A day in figures."""
    return f"{rng.integers(1, 29):02}.{rng.integers(1, 13):02}.{rng.integers(1950, 2030)}"


def whole(rng: np.random.Generator, low: int, high: int) -> int:
    """A whole number from ``low`` to ``high``, both possible."""
    return int(rng.integers(low, high + 1))


def vivid(rng: np.random.Generator) -> Colour:
    """A saturated colour."""
    channels = [whole(rng, 0, 90), whole(rng, 60, 210), whole(rng, 150, 255)]
    order = rng.permutation(3)
    return channels[order[0]], channels[order[1]], channels[order[2]]


def mix(first: Colour, second: Colour, share: float) -> Colour:
    """A colour between two."""
    blended = [round(a + (b - a) * share) for a, b in zip(first, second, strict=True)]
    return blended[0], blended[1], blended[2]


def sheet(size: tuple[int, int], colour: Colour) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    """A picture of one colour, (width, height), and a pen for it."""
    picture = Image.new("RGB", size, colour)
    return picture, ImageDraw.Draw(picture)


def photos_from(paths: Sequence[Path]) -> Photo:
    """Photos drawn from files, for the kinds that show some."""

    def draw(rng: np.random.Generator) -> Image.Image:
        with Image.open(paths[int(rng.integers(len(paths)))]) as file:
            return file.convert("RGB")

    return draw

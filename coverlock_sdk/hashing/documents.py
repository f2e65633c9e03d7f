"""Pages, slides, forms and screens with random words: pictures that look alike but are not.

Photos alone do not teach a hash to tell two pages of text apart. A *template* fixes everything
but the words, so pictures of one template are the hardest ones to tell apart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

SIDE = 512
TEMPLATES = 48
"""Different layouts; document n is of template n modulo this."""

LETTERS = "eeeetttaaaoooiiinnnsshhrrdlucmfwypvbgk"
FACES = ("DejaVuSans", "DejaVuSerif", "DejaVuSansMono", "DejaVuSans-Bold")

Picture = npt.NDArray[np.uint8]


def render_document(number: int, seed: int = 0) -> Picture:
    """Document ``number``, 8-bit RGB (512, 512, 3): its template's layout with words of its own."""
    template = number % TEMPLATES
    style = np.random.default_rng([seed, template])
    words = np.random.default_rng([seed, template, number])
    kinds = (_page, _columns, _slide, _form, _screen, _listing)
    return np.asarray(kinds[template % len(kinds)](style, words))


class _Sheet:
    """A drawing with a background, ink, and a font at some size."""

    def __init__(self, style: np.random.Generator, dark: bool = False) -> None:
        paper = style.integers(225, 256, 3) if not dark else style.integers(15, 50, 3)
        ink = style.integers(0, 70, 3) if not dark else style.integers(190, 250, 3)
        self.paper, self.ink = _colour(paper), _colour(ink)
        self.accent = _colour(style.integers(30, 200, 3))
        self.image = Image.new("RGB", (SIDE, SIDE), self.paper)
        self.draw = ImageDraw.Draw(self.image)
        self.face = FACES[int(style.integers(len(FACES)))]

    def text(
        self, words: np.random.Generator, left: int, top: int, width: int, size: int, lines: int
    ) -> None:
        """Lines of random words, each filling ``width`` but the last, which ends early."""
        font = _font(self.face, size)
        step = round(size * 1.4)
        for line in range(lines):
            share = 1.0 if line < lines - 1 else words.uniform(0.2, 0.9)
            text = ""
            while font.getlength(text) < width * share:
                text += _word(words) + " "
            while font.getlength(text) > width:
                text = text[:-1]
            self.draw.text((left, top + line * step), text, fill=self.ink, font=font)


def _page(style: np.random.Generator, words: np.random.Generator) -> Image.Image:
    sheet, size, margin = _Sheet(style), int(style.integers(9, 20)), int(style.integers(16, 60))
    top, step = margin, round(size * 1.4)
    if style.random() < 0.5:
        sheet.text(words, margin, top, int(SIDE * 0.6), size * 2, 1)
        top += 4 * size
    while top + 3 * step < SIDE - margin:
        lines = min(int(words.integers(3, 9)), (SIDE - margin - top) // step)
        sheet.text(words, margin, top, SIDE - 2 * margin, size, lines)
        top += round((lines + 0.6) * step)
    return sheet.image


def _columns(style: np.random.Generator, words: np.random.Generator) -> Image.Image:
    sheet, size, margin = _Sheet(style), int(style.integers(8, 13)), int(style.integers(16, 40))
    count = int(style.integers(2, 4))
    width = (SIDE - 2 * margin) // count
    sheet.text(words, margin, margin, SIDE - 2 * margin, 2 * size, 1)
    lines = (SIDE - 2 * margin - 4 * size) // round(size * 1.4)
    for column in range(count):
        sheet.text(words, margin + column * width, margin + 4 * size, width - 12, size, lines)
    return sheet.image


def _slide(style: np.random.Generator, words: np.random.Generator) -> Image.Image:
    sheet, size = _Sheet(style, dark=bool(style.random() < 0.3)), int(style.integers(18, 30))
    bar = int(style.integers(40, 110))
    sheet.draw.rectangle((0, 0, SIDE, bar), fill=sheet.accent)
    sheet.text(words, 30, bar // 2 - size // 2, int(SIDE * 0.75), size, 1)
    for bullet in range(int(words.integers(3, 6))):
        top = bar + 40 + bullet * 3 * size
        sheet.draw.ellipse((34, top + 4, 34 + size // 2, top + 4 + size // 2), fill=sheet.accent)
        sheet.text(words, 60, top, SIDE - 110, round(size * 0.8), int(words.integers(1, 3)))
    return sheet.image


def _form(style: np.random.Generator, words: np.random.Generator) -> Image.Image:
    sheet, size = _Sheet(style), int(style.integers(10, 16))
    rows, columns = int(style.integers(7, 15)), int(style.integers(2, 5))
    sheet.text(words, 24, 20, 300, size * 2, 1)
    high, wide = (SIDE - 100) // rows, (SIDE - 48) // columns
    for row in range(rows):
        for column in range(columns):
            left, top = 24 + column * wide, 76 + row * high
            sheet.draw.rectangle((left, top, left + wide, top + high), outline=sheet.accent)
            share = words.uniform(0.3, 0.95)
            sheet.text(words, left + 4, top + (high - size) // 2, int(wide * share) - 8, size, 1)
    return sheet.image


def _screen(style: np.random.Generator, words: np.random.Generator) -> Image.Image:
    sheet, size = _Sheet(style, dark=bool(style.random() < 0.4)), int(style.integers(9, 15))
    side = int(style.integers(80, 160))
    sheet.draw.rectangle((0, 0, SIDE, 34), fill=sheet.accent)
    sheet.draw.rectangle((0, 34, side, SIDE), fill=_colour(style.integers(90, 180, 3)))
    for item in range(int(style.integers(6, 14))):
        sheet.text(words, 10, 48 + item * 3 * size, side - 24, size, 1)
    top = 50
    while top < SIDE - 60:
        height = int(words.integers(40, 120))
        sheet.draw.rectangle((side + 14, top, SIDE - 14, top + height), outline=sheet.accent)
        lines = max(1, (height - 10) // round(size * 1.4))
        sheet.text(words, side + 22, top + 6, SIDE - side - 50, size, lines)
        top += height + 12
    return sheet.image


def _listing(style: np.random.Generator, words: np.random.Generator) -> Image.Image:
    sheet, size = _Sheet(style, dark=bool(style.random() < 0.6)), int(style.integers(9, 16))
    depth = 0
    for line in range((SIDE - 20) // round(size * 1.4)):
        depth = int(np.clip(depth + words.integers(-1, 2), 0, 5))
        width = int(words.uniform(0.05, 0.6) * SIDE)
        if words.random() < 0.85:
            left = 16 + depth * 2 * size
            sheet.text(words, left, 10 + line * round(size * 1.4), width, size, 1)
    return sheet.image


def _word(words: np.random.Generator) -> str:
    return "".join(words.choice(list(LETTERS), words.integers(1, 10)))


def _colour(values: npt.NDArray[np.int64]) -> tuple[int, int, int]:
    red, green, blue = (int(value) for value in values)
    return red, green, blue


@lru_cache(maxsize=64)
def _font(face: str, size: int) -> ImageFont.FreeTypeFont:
    from matplotlib import get_data_path

    return ImageFont.truetype(Path(get_data_path()) / "fonts" / "ttf" / f"{face}.ttf", size)


_Kind = Callable[[np.random.Generator, np.random.Generator], Image.Image]

"""Bar codes, alone and on parcel labels: modules drawn at random, which no scanner reads."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image

from coverlock_training.kinds.desk import Colour, Desk, dark, pale, sheet, whole


def bar_code(desk: Desk) -> Image.Image:
    """A bar code with its number below."""
    style = desk.style
    ground, ink = pale(style), dark(style)
    picture, pen = sheet((480, whole(style, 200, 360)), ground)
    height = picture.height - whole(style, 70, 110)
    code = bars(desk.content, whole(style, 320, 440), height, ink, whole(style, 30, 60), ground)
    picture.paste(code, ((480 - code.width) // 2, 24))
    number = desk.words.number(desk.content, 12)
    pen.text((240, height + 34), number, ink, desk.font(24), anchor="ma")
    return picture


def parcel_label(desk: Desk) -> Image.Image:
    """Held out: a parcel label with a bar code across, one upright, and an address."""
    style, content, words = desk.style, desk.content, desk.words
    picture, pen = sheet((400, 560), (255, 255, 255))
    black: Colour = (0, 0, 0)
    face, large = desk.font(15), desk.font(40)
    pen.rectangle((10, 10, 390, 550), outline=black, width=3)
    for row in range(4):
        pen.text((24, 24 + 20 * row), words.title(content, 2), black, face)
    pen.line((10, 120, 390, 120), black, 3)
    pen.text((24, 130), words.number(content, 5), black, large)
    pen.text((240, 134), words.title(style, 1), black, face)
    picture.paste(bars(content, 330, 110, black, 54), (34, 200))
    pen.text((200, 316), words.number(content, 18), black, face, anchor="ma")
    pen.line((10, 350, 390, 350), black, 3)
    picture.paste(bars(content, 180, 60, black, 34).rotate(90, expand=True), (320, 358))
    for row in range(7):
        pen.text((24, 362 + 24 * row), words.line(content, whole(content, 14, 32)), black, face)
    return picture


def bars(
    rng: np.random.Generator,
    width: int,
    height: int,
    ink: Colour,
    count: int,
    ground: Colour = (255, 255, 255),
) -> Image.Image:
    """``count`` dark bars with gaps of one to four units."""
    widths = rng.choice([1, 2, 3, 4], 2 * count, p=[0.45, 0.3, 0.15, 0.1])
    dark_units = np.repeat(np.arange(2 * count) % 2 == 0, widths)[None, :]
    return painted(dark_units, ink, ground).resize((width, height), Image.Resampling.NEAREST)


def painted(dark_modules: npt.NDArray[np.bool_], ink: Colour, ground: Colour) -> Image.Image:
    """Modules as a picture, one pixel each."""
    colours = np.where(dark_modules[..., None], np.array(ink), np.array(ground))
    return Image.fromarray(colours.astype(np.uint8))

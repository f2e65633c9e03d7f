"""QR codes and bar codes, alone and in print.

The modules of a QR code look random once its mask is applied, so they are drawn as such between
true finder, timing and alignment patterns; nothing reads them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image

from coverlock_sdk.training.kinds.desk import Colour, Desk, chance, dark, pale, sheet, vivid, whole

FINDER = 7


def qr_code(desk: Desk) -> Image.Image:
    """A QR code with a quiet zone, black or coloured."""
    style = desk.style
    ink: Colour = (0, 0, 0) if chance(style, 0.6) else dark(style)
    ground: Colour = (255, 255, 255) if chance(style, 0.7) else pale(style)
    code = painted(modules(desk.content, whole(style, 1, 7)), ink, ground)
    return _with_margin(code, whole(style, 2, 6) / 40, ground)


def qr_poster(desk: Desk) -> Image.Image:
    """A QR code on a label with a line of text."""
    style, words = desk.style, desk.words
    ground = pale(style)
    picture, pen = sheet((400, whole(style, 440, 520)), ground)
    side = whole(style, 220, 340)
    code = painted(modules(desk.content, whole(style, 2, 6)), dark(style), ground)
    place = (400 - side) // 2, whole(style, 30, 80)
    picture.paste(code.resize((side, side), Image.Resampling.NEAREST), place)
    pen.rectangle((0, 0, 400, 20), vivid(style))
    y = place[1] + side + 16
    pen.text((200, y), words.title(style, 2), dark(style), desk.font(24), anchor="ma")
    pen.text((200, y + 34), words.line(desk.content, 30), dark(style), desk.font(14), anchor="ma")
    return picture


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


def held_out_qr(desk: Desk) -> Image.Image:
    """Held out: QR codes of versions that training does not draw, with another quiet zone."""
    code = painted(modules(desk.content, 8 + whole(desk.style, 0, 2)), (0, 0, 0), (255, 255, 255))
    return _with_margin(code, 0.08, (255, 255, 255))


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


def modules(rng: np.random.Generator, version: int) -> npt.NDArray[np.bool_]:
    """The dark modules of a QR code of ``version``, its data being random."""
    side = 17 + 4 * version
    dark_modules: npt.NDArray[np.bool_] = rng.random((side, side)) < 0.5
    finder = np.ones((FINDER, FINDER), dtype=bool)
    finder[1:6, 1:6] = False
    finder[2:5, 2:5] = True
    for top, left in ((0, 0), (0, side - FINDER), (side - FINDER, 0)):
        around = (
            slice(max(0, top - 1), top + FINDER + 1),
            slice(max(0, left - 1), left + FINDER + 1),
        )
        dark_modules[around] = False
        dark_modules[top : top + FINDER, left : left + FINDER] = finder
    dark_modules[6, 8 : side - 8] = dark_modules[8 : side - 8, 6] = np.arange(side - 16) % 2 == 0
    if version > 1:
        at = side - 9
        dark_modules[at : at + 5, at : at + 5] = True
        dark_modules[at + 1 : at + 4, at + 1 : at + 4] = False
        dark_modules[at + 2, at + 2] = True
    return dark_modules


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


def _with_margin(code: Image.Image, share: float, ground: Colour) -> Image.Image:
    """Enlarge a code to about 400 pixels and put a quiet zone around it."""
    side = 400 // code.width * code.width
    margin = round(side * share)
    picture = Image.new("RGB", (side + 2 * margin, side + 2 * margin), ground)
    picture.paste(code.resize((side, side), Image.Resampling.NEAREST), (margin, margin))
    return picture

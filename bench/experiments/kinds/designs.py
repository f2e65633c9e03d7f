"""The designs: a page, a form, a licence, a till slip, a parcel label and a screen.

Each takes a desk. Pictures of one design share their layout down to the pixel.
"""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageOps

from experiments.kinds.desk import (
    MONO,
    Box,
    Colour,
    Desk,
    amount,
    date,
    font,
    line,
    mix,
    number,
    sheet,
    title,
    vivid,
    whole,
    word,
)

BLACK: Colour = (0, 0, 0)
WHITE: Colour = (255, 255, 255)


def page(desk: Desk) -> Image.Image:
    """Black lines of one length on white, from edge to edge."""
    picture, pen = sheet((512, 512), WHITE)
    face = desk.font(16)
    for top in range(24, 480, 22):
        pen.text((24, top), line(desk.content, 52), BLACK, face)
    return picture


def form(desk: Desk) -> Image.Image:
    """A form with one box per letter."""
    style, content = desk.style, desk.content
    picture, pen = sheet((480, 620), (255, 253, 250))
    cell, label, entry, red = whole(style, 13, 17), desk.font(10), font(MONO, 13), (170, 40, 40)
    pen.rectangle((12, 12, 468, 60), outline=red, width=2)
    pen.text((24, 24), title(style, 4), red, desk.font(18))
    for row, y in enumerate(range(80, 580, whole(style, 44, 56))):
        pen.text((20, y), f"{row + 1}. {title(style, 2)}", red, label)
        text = title(content, 3) if row % 2 else number(content, 14)
        for place in range(whole(style, 16, 28)):
            x = 20 + place * cell
            pen.rectangle((x, y + 14, x + cell, y + 14 + cell + 2), outline=red)
            if place < len(text):
                pen.text((x + 3, y + 14), text[place].upper(), (20, 20, 60), entry)
    return picture


def licence(desk: Desk) -> Image.Image:
    """A licence with a photo on the right, two columns of fields and a number."""
    style, content = desk.style, desk.content
    picture, pen = sheet((560, 350), (225, 228, 236))
    entry, label, blue = desk.font(15), desk.font(9), (40, 60, 120)
    pen.rectangle((0, 300, 560, 350), blue)
    pen.text((18, 12), title(style, 2).upper(), blue, desk.font(22))
    picture.paste(ImageOps.fit(desk.photo(content), (140, 180)), (400, 60))
    for row in range(5):
        for column in range(2):
            x, y = 20 + 190 * column, 60 + 44 * row
            pen.text((x, y), f"{row + 1}{'ab'[column]}. {word(style)}", (90, 90, 110), label)
            text = title(content, 1) if (row + column) % 2 else date(content)
            pen.text((x, y + 12), text, (10, 10, 30), entry)
    pen.text((20, 312), number(content, 16), WHITE, font(MONO, 22))
    return picture


def till_slip(desk: Desk) -> Image.Image:
    """A slip with quantities in front, tax lines and a thank-you below."""
    style, content = desk.style, desk.content
    picture, pen = sheet((300, 600), (250, 250, 248))
    face, ink = font(MONO, 13), (35, 35, 40)
    pen.rectangle((110, 14, 190, 60), ink)
    pen.text((150, 37), title(style, 1), (250, 250, 248), desk.font(16), anchor="mm")
    pen.text((150, 78), line(style, 26), ink, face, anchor="mm")
    pen.line((12, 92, 288, 92), ink)
    items = [f"{whole(content, 1, 9)} x {line(content, 12)}" for _ in range(whole(content, 12, 22))]
    for row, text in enumerate([*items, "net", "tax", "sum"]):
        y = 100 + 17 * row
        pen.text((14, y), text, ink, face)
        pen.text((286, y), amount(content), ink, face, anchor="ra")
    pen.text((150, 582), line(style, 24), ink, face, anchor="mm")
    return picture


def parcel_label(desk: Desk) -> Image.Image:
    """A parcel label with a bar code across, one upright, and an address."""
    style, content = desk.style, desk.content
    picture, pen = sheet((400, 560), WHITE)
    face = desk.font(15)
    pen.rectangle((10, 10, 390, 550), outline=BLACK, width=3)
    for row in range(4):
        pen.text((24, 24 + 20 * row), title(content, 2), BLACK, face)
    pen.line((10, 120, 390, 120), BLACK, 3)
    pen.text((24, 130), number(content, 5), BLACK, desk.font(40))
    pen.text((240, 134), title(style, 1), BLACK, face)
    picture.paste(_bar_code(content, 330, 110, bars=54), (34, 200))
    pen.text((200, 316), number(content, 18), BLACK, face, anchor="ma")
    pen.line((10, 350, 390, 350), BLACK, 3)
    picture.paste(_bar_code(content, 180, 60, bars=34).rotate(90, expand=True), (320, 358))
    for row in range(7):
        pen.text((24, 362 + 24 * row), line(content, whole(content, 14, 32)), BLACK, face)
    return picture


def dashboard(desk: Desk) -> Image.Image:
    """An app with icons on the left, four gauges, a wide curve and a log."""
    style, content = desk.style, desk.content
    card, ink = (36, 42, 56), (220, 225, 235)
    picture, pen = sheet((640, 400), (24, 28, 38))
    small = desk.font(11)
    for row in range(7):
        pen.ellipse((10, 20 + row * 50, 38, 48 + row * 50), mix(card, vivid(style), 0.6))
    for x in (56, 202, 348, 494):
        pen.rounded_rectangle((x, 12, x + 136, 112), 8, card)
        share = content.uniform(0.05, 1.0)
        pen.arc((x + 14, 28, x + 84, 98), 135, 405, (60, 68, 86), 9)
        pen.arc((x + 14, 28, x + 84, 98), 135, 135 + 270 * share, vivid(style), 9)
        pen.text((x + 49, 63), f"{share:.0%}", ink, small, anchor="mm")
        pen.text((x + 92, 30), number(content, 3), ink, small)
    pen.rounded_rectangle((56, 124, 400, 390), 8, card)
    for colour in ((90, 200, 250), (250, 140, 90)):
        _curve(desk, pen, (70, 150, 390, 376), colour)
    pen.rounded_rectangle((410, 124, 630, 390), 8, card)
    pen.text((420, 130), number(content, 5), ink, desk.font(22))
    for row in range(12):
        pen.text((420, 164 + row * 18), line(content, whole(content, 12, 30)), ink, small)
    return picture


def _bar_code(rng: np.random.Generator, width: int, height: int, bars: int) -> Image.Image:
    """Dark bars with gaps of one to four units, which no scanner reads."""
    widths = rng.choice([1, 2, 3, 4], 2 * bars, p=[0.45, 0.3, 0.15, 0.1])
    units = np.repeat(np.arange(2 * bars) % 2 * 255, widths).astype(np.uint8)
    code = Image.fromarray(units[None]).resize((width, height), Image.Resampling.NEAREST)
    return code.convert("RGB")


def _curve(desk: Desk, pen: ImageDraw.ImageDraw, box: Box, colour: Colour) -> None:
    """A random walk that fills the box."""
    walk = np.cumsum(desk.content.normal(0, 1, 40))
    x = np.interp(np.arange(40), (0, 39), (box[0], box[2]))
    y = np.interp(walk, (walk.min(), walk.max()), (box[3], box[1]))
    pen.line(list(zip(map(float, x), map(float, y), strict=True)), colour, 2)

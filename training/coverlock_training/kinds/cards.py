"""ID cards and receipts: small things that share a template down to the pixel."""

from __future__ import annotations

import math

from PIL import Image, ImageDraw

from coverlock_training.kinds.codes import bars
from coverlock_training.kinds.desk import (
    Colour,
    Desk,
    between,
    chance,
    cloud,
    dark,
    mix,
    pale,
    sheet,
    vivid,
    whole,
)
from coverlock_training.kinds.documents import scribble
from coverlock_training.kinds.people import portrait_of


def id_card(desk: Desk) -> Image.Image:
    """A card with a header, a portrait, labelled fields and perhaps a machine-readable strip."""
    style, content, words = desk.style, desk.content, desk.words
    ground, accent, ink = pale(style), vivid(style), dark(style)
    picture, pen = sheet((540, 340), ground)
    if chance(style, 0.7):
        guilloche(desk, pen, mix(ground, accent, 0.3))
    header = between(style, 30, 70)
    pen.rectangle((0, 0, 540, header), accent)
    pen.text((20, header / 4), words.title(style, 3), pale(style), desk.font(header * 0.45))
    left = chance(style, 0.6)
    width = whole(style, 110, 160)
    x = 20 if left else 520 - width
    face = portrait_of(desk, (width, round(width * 1.25)))
    picture.paste(face, (x, round(header + between(style, 12, 40))))
    label, entry = desk.font(between(style, 9, 12)), desk.font(between(style, 13, 20))
    column, y = (40 + width if left else 20), header + between(style, 10, 25)
    step = between(style, 34, 46)
    strip = chance(style, 0.5)
    while y < (270 if strip else 310):
        pen.text((column, y), words.title(style, 1), mix(ink, ground, 0.4), label)
        value = words.title(content, whole(content, 1, 2))
        if chance(style, 0.4):
            value = words.date(content) if chance(style, 0.5) else words.number(content, 9)
        pen.text((column, y + 12), value, ink, entry)
        y += step
    if strip:
        pen.rectangle((0, 288, 540, 340), mix(ground, (255, 255, 255), 0.5))
        mono = desk.font(15, "mono")
        for row in range(2):
            text = "<".join(words.word(content).upper() for _ in range(9))[:44]
            pen.text((14, 294 + row * 21), text, (20, 20, 20), mono)
    return picture


def receipt(desk: Desk) -> Image.Image:
    """A till receipt: shop, lines with prices, total, and perhaps a bar code."""
    style, content, words = desk.style, desk.content, desk.words
    picture, pen = sheet((320, whole(style, 420, 620)), pale(style))
    size = between(style, 11, 15)
    face, ink = desk.font(size, "mono" if chance(style, 0.7) else None), dark(style)
    large = desk.font(size * 1.7)
    pen.text((160, 26), words.title(style, 2), ink, large, anchor="mm")
    pen.text((160, 52), words.title(style, 3), ink, face, anchor="mm")
    pen.text((24, 70), f"{words.date(content)}  {words.number(content, 4)}", ink, face)
    y, step = 70 + size * 2, size * between(style, 1.2, 1.7)
    code = chance(style, 0.5)
    end = picture.height - (110 if code else 60)
    lines = whole(content, max(3, int((end - y) / step / 2)), max(4, int((end - y) / step)))
    for _ in range(lines):
        pen.text((24, y), words.line(content, whole(content, 6, 18)), ink, face)
        pen.text((296, y), words.amount(content), ink, face, anchor="ra")
        y += step
    pen.line((24, y + 3, 296, y + 3), ink)
    pen.text((24, y + 8), words.title(style, 1), ink, large)
    pen.text((296, y + 8), words.amount(content), ink, large, anchor="ra")
    if code:
        picture.paste(bars(content, 220, 50, ink, 40), (50, picture.height - 64))
    return picture


def licence(desk: Desk) -> Image.Image:
    """Held out: a licence with the portrait on the right, two columns and a signature."""
    style, content, words = desk.style, desk.content, desk.words
    picture = Image.merge("RGB", [cloud(style, (560, 350), 90).point(_lighter) for _ in range(3)])
    pen = ImageDraw.Draw(picture)
    bold, entry, label = desk.font(22), desk.font(15), desk.font(9)
    pen.rectangle((0, 300, 560, 350), (40, 60, 120))
    pen.text((18, 12), words.title(style, 2).upper(), (40, 60, 120), bold)
    picture.paste(portrait_of(desk, (140, 180)), (400, 60))
    for row in range(5):
        for column in range(2):
            x, y = 20 + 190 * column, 60 + 44 * row
            pen.text((x, y), f"{row + 1}{'ab'[column]}. {words.word(style)}", (90, 90, 110), label)
            text = words.title(content, 1) if (row + column) % 2 else words.date(content)
            pen.text((x, y + 12), text, (10, 10, 30), entry)
    scribble(desk, pen, (400, 250, 540, 290), (20, 20, 60))
    pen.text((20, 312), words.number(content, 16), (255, 255, 255), desk.font(22, "mono"))
    return picture


def till_slip(desk: Desk) -> Image.Image:
    """Held out: a slip with quantities in front, tax lines and a thank-you below."""
    style, content, words = desk.style, desk.content, desk.words
    picture, pen = sheet((300, 600), (250, 250, 248))
    face, ink = desk.font(13, "mono"), (35, 35, 40)
    pen.rectangle((110, 14, 190, 60), ink)
    pen.text((150, 37), words.title(style, 1), (250, 250, 248), desk.font(16), anchor="mm")
    pen.text((150, 78), words.line(style, 26), ink, face, anchor="mm")
    pen.line((12, 92, 288, 92), ink)
    y = 100
    for _ in range(whole(content, 12, 22)):
        text = f"{whole(content, 1, 9)} x {words.line(content, whole(content, 5, 15))}"
        pen.text((14, y), text, ink, face)
        pen.text((286, y), words.amount(content), ink, face, anchor="ra")
        y += 17
    for name in ("net", "tax", "sum"):
        pen.text((150, y + 10), name, ink, face)
        pen.text((286, y + 10), words.amount(content), ink, face, anchor="ra")
        y += 17
    pen.text((150, 582), words.line(style, 24), ink, face, anchor="mm")
    return picture


def guilloche(desk: Desk, pen: ImageDraw.ImageDraw, colour: Colour) -> None:
    """Fine waves across the card, as security prints have them."""
    period, swing = between(desk.style, 40, 160), between(desk.style, 8, 30)
    for offset in range(0, 340, whole(desk.style, 8, 20)):
        wave = [(x, offset + swing * math.sin(2 * math.pi * x / period)) for x in range(0, 541, 6)]
        pen.line(wave, colour)


def _lighter(level: float) -> float:
    return 190 + level / 4

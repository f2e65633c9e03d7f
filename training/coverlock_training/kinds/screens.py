"""Screenshots: dashboards and chats."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from coverlock_training.kinds.desk import (
    Box,
    Colour,
    Desk,
    between,
    chance,
    filled,
    ground_and_ink,
    mix,
    sheet,
    vivid,
    whole,
)


def dashboard(desk: Desk) -> Image.Image:
    """An app with a side bar and cards that hold numbers, charts and tables."""
    style = desk.style
    ground, ink = ground_and_ink(style, 0.35)
    accent, card = vivid(style), mix(ground, ink, 0.06)
    picture, pen = sheet((640, whole(style, 380, 480)), ground)
    width, height = picture.size
    side = between(style, 0, 130) if chance(style, 0.8) else 0
    bar = between(style, 24, 48)
    small = desk.font(10)
    pen.rectangle((0, 0, side, height), mix(ink, accent, between(style, 0, 1)))
    for row in range(whole(style, 4, 10)):
        pen.text((10, 50 + row * 26), desk.words.title(style, 1), ground, small)
    pen.rectangle((side, 0, width, bar), mix(ground, ink, 0.12))
    pen.text((side + 14, bar / 4), desk.words.title(style, 2), ink, desk.font(bar * 0.45))
    y = bar + 10
    while y < height - 50:
        columns, tall = whole(style, 1, 4), between(style, 60, 170)
        step = (width - side - 10) / columns
        for column in range(columns):
            x = side + 10 + column * step
            box = (x, y, x + step - 10, min(height - 8, y + tall))
            pen.rectangle(box, card, mix(ground, ink, 0.2))
            pen.text((x + 8, y + 5), desk.words.title(style, 2), ink, small)
            inner = (x + 10, y + 24, box[2] - 10, box[3] - 8)
            draw = (_number, _bars, _curve, _rows)[0 if tall < 85 else whole(style, 1, 3)]
            if inner[3] - inner[1] > 12:
                draw(desk, pen, inner, ink, accent)
        y += tall + 10
    return picture


def chat(desk: Desk) -> Image.Image:
    """A conversation on a phone: bubbles left and right, now and then a photo."""
    style, content, words = desk.style, desk.content, desk.words
    ground, ink = ground_and_ink(style, 0.3)
    picture, pen = sheet((360, whole(style, 480, 720)), ground)
    mine, theirs = vivid(style), mix(ground, ink, 0.12)
    face, title = desk.fonts_at(between(style, 12, 15), 17)
    pen.rectangle((0, 0, 360, 56), mix(ground, mine, between(style, 0, 1)))
    pen.text((60, 18), words.title(content, 2), ink, title)
    pen.ellipse((14, 10, 50, 46), vivid(content))
    y, radius = 68.0, whole(style, 4, 18)
    while y < picture.height - 60:
        right, lines = chance(content, 0.5), whole(content, 1, 4)
        if chance(content, 0.1):
            wide, tall = 190, 120
            x = 346 - wide if right else 14
            picture.paste(filled(desk.photo(content), wide, tall), (x, round(y)))
            y += tall + 10
            continue
        texts = [words.line(content, whole(content, 6, 26)) for _ in range(lines)]
        wide = round(max(pen.textlength(text, face) for text in texts)) + 22
        tall = lines * 17 + 14
        x = 346 - wide if right else 14
        pen.rounded_rectangle((x, y, x + wide, y + tall), radius, mine if right else theirs)
        for row, text in enumerate(texts):
            pen.text((x + 11, y + 7 + row * 17), text, (255, 255, 255) if right else ink, face)
        y += tall + whole(content, 5, 16)
    pen.rounded_rectangle((10, picture.height - 44, 350, picture.height - 8), 16, theirs)
    return picture


def control_room(desk: Desk) -> Image.Image:
    """Held out: an app with icons on the left, four gauges, a wide curve and a log."""
    style, content, words = desk.style, desk.content, desk.words
    ground, card, ink = (24, 28, 38), (36, 42, 56), (220, 225, 235)
    picture, pen = sheet((640, 400), ground)
    small, large = desk.font(11), desk.font(22)
    for row in range(7):
        pen.ellipse((10, 20 + row * 50, 38, 48 + row * 50), mix(card, vivid(style), 0.6))
    for gauge in range(4):
        x = 56 + gauge * 146
        pen.rounded_rectangle((x, 12, x + 136, 112), 8, card)
        share = between(content, 0.05, 1.0)
        pen.arc((x + 14, 28, x + 84, 98), 135, 405, (60, 68, 86), 9)
        pen.arc((x + 14, 28, x + 84, 98), 135, 135 + 270 * share, vivid(style), 9)
        pen.text((x + 49, 63), f"{share:.0%}", ink, small, anchor="mm")
        pen.text((x + 92, 30), words.number(content, 3), ink, small)
    pen.rounded_rectangle((56, 124, 400, 390), 8, card)
    for colour in ((90, 200, 250), (250, 140, 90)):
        _curve(desk, pen, (70, 150, 390, 376), ink, colour)
    pen.rounded_rectangle((410, 124, 630, 390), 8, card)
    pen.text((420, 130), words.number(content, 5), ink, large)
    for row in range(12):
        pen.text((420, 164 + row * 18), words.line(content, whole(content, 12, 30)), ink, small)
    return picture


def group_chat(desk: Desk) -> Image.Image:
    """Held out: a work chat in rows: avatar, name, text flush left."""
    style, content, words = desk.style, desk.content, desk.words
    picture, pen = sheet((560, 460), (255, 255, 255))
    pen.rectangle((0, 0, 150, 460), mix(vivid(style), (30, 20, 50), 0.7))
    face, bold = desk.font(13), desk.font(14)
    for row in range(16):
        pen.text((14, 20 + row * 26), "# " + words.word(style), (210, 205, 220), face)
    y = 14
    while y < 430:
        pen.rounded_rectangle((164, y, 192, y + 28), 5, vivid(content))
        pen.text((202, y - 2), words.title(content, 2), (20, 20, 25), bold)
        for _ in range(whole(content, 1, 4)):
            y += 18
            pen.text((202, y), words.line(content, whole(content, 10, 52)), (50, 50, 55), face)
        y += 32
    return picture


def _number(desk: Desk, pen: ImageDraw.ImageDraw, box: Box, ink: Colour, accent: Colour) -> None:
    """A large number, and a small change beside it."""
    large, small = desk.fonts_at(min(30, max(9, (box[3] - box[1]) * 0.8)), 10)
    text = desk.words.number(desk.content, whole(desk.content, 2, 6))
    pen.text(box[:2], text, accent, large)
    pen.text((box[2], box[3]), desk.words.amount(desk.content), ink, small, anchor="rs")


def _bars(desk: Desk, pen: ImageDraw.ImageDraw, box: Box, ink: Colour, accent: Colour) -> None:
    """A small bar chart."""
    count = whole(desk.style, 5, 20)
    step = (box[2] - box[0]) / count
    for place in range(count):
        top = box[3] - between(desk.content, 0.05, 1.0) * (box[3] - box[1])
        x = box[0] + place * step
        pen.rectangle((x, top, x + step * 0.7, box[3]), accent)
    pen.line((box[0], box[3], box[2], box[3]), ink)


def _curve(desk: Desk, pen: ImageDraw.ImageDraw, box: Box, ink: Colour, accent: Colour) -> None:
    """A small line chart."""
    walk = np.cumsum(desk.content.normal(0, 1, 40))
    level = (walk - walk.min()) / max(float(np.ptp(walk)), 1e-6)
    x = np.linspace(box[0], box[2], 40)
    y = box[3] - level * (box[3] - box[1])
    pen.line(list(zip(map(float, x), map(float, y), strict=True)), accent, 2)
    pen.line((box[0], box[3], box[2], box[3]), ink)


def _rows(desk: Desk, pen: ImageDraw.ImageDraw, box: Box, ink: Colour, accent: Colour) -> None:
    """A small table."""
    face = desk.font(10)
    y = box[1]
    while y < box[3] - 12:
        letters = max(3, int((box[2] - box[0]) / 11))
        pen.text(
            (box[0], y), desk.words.line(desk.content, whole(desk.content, 2, letters)), ink, face
        )
        pen.text((box[2], y), desk.words.number(desk.content, 3), accent, face, anchor="ra")
        y += 15

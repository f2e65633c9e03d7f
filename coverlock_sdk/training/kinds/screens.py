"""Screenshots: dashboards, chats, web pages, code editors, lists and spreadsheets."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from coverlock_sdk.training.kinds.desk import (
    Box,
    Colour,
    Desk,
    between,
    chance,
    dark,
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


def web_page(desk: Desk) -> Image.Image:
    """An article or a shop in a browser: header, photos, text, side column."""
    style, content, words = desk.style, desk.content, desk.words
    ground, ink = ground_and_ink(style, 0.2)
    picture, pen = sheet((whole(style, 420, 640), 460), ground)
    width, height = picture.size
    accent, size = vivid(style), between(style, 10, 14)
    body, large = desk.fonts_at(size, size * 1.9)
    pen.rectangle((0, 0, width, between(style, 24, 54)), accent)
    for item in range(4):
        pen.text((20 + item * width / 5, 14), words.title(style, 1), ground, body)
    if chance(style, 0.5):  # a shop
        columns, row = whole(style, 2, 4), 70
        step = (width - 20) // columns
        tall = whole(style, 80, 150)
        while row < height:
            for column in range(columns):
                x = 20 + column * step
                picture.paste(filled(desk.photo(content), step - 20, tall), (x, row))
                pen.text((x, row + tall + 4), words.line(content, step // 9), ink, body)
                pen.text((x, row + tall + 4 + size * 1.4), words.amount(content), accent, body)
            row += tall + round(size * 3.6)
        return picture
    pen.text((24, 66), words.title(content, 3), ink, large)
    right, y = width * between(style, 0.6, 0.95), 66 + size * 3
    if chance(style, 0.7):
        tall = whole(style, 90, 200)
        picture.paste(filled(desk.photo(content), round(right - 24), tall), (24, round(y)))
        y += tall + 10
    _text(desk, pen, (24, y, right, height), ink, size)
    if right < width * 0.8:
        pen.rectangle(
            (right + 14, 66, width - 10, 66 + between(style, 80, 300)), mix(ground, accent, 0.3)
        )
        _text(desk, pen, (right + 20, 76, width - 14, 360), ink, size * 0.9)
    return picture


def editor(desk: Desk) -> Image.Image:
    """Source code with line numbers and coloured words."""
    style, content, words = desk.style, desk.content, desk.words
    ground, ink = ground_and_ink(style, 0.6)
    picture, pen = sheet((600, whole(style, 360, 480)), ground)
    size = between(style, 10, 15)
    face = desk.font(size, "mono")
    colours = [ink, *(mix(vivid(style), ink, 0.3) for _ in range(4))]
    side = between(style, 0, 120)
    pen.rectangle((0, 0, side, picture.height), mix(ground, ink, 0.08))
    indent, y, step = 0, 6.0, size * between(style, 1.25, 1.6)
    while y < picture.height - step:
        pen.text((side + 4, y), f"{int(y // step):3}", mix(ground, ink, 0.4), face)
        x = side + 40 + indent * size * 2
        for _ in range(whole(content, 0, 6)):
            text = words.word(content)
            pen.text((x, y), text, colours[whole(content, 0, 4)], face)
            x += pen.textlength(text + " ", face)
        indent = min(5, max(0, indent + whole(content, -1, 1)))
        y += step
    return picture


def settings_list(desk: Desk) -> Image.Image:
    """A phone's list: icons, two lines of text each, switches."""
    style, content, words = desk.style, desk.content, desk.words
    ground, ink = ground_and_ink(style, 0.3)
    picture, pen = sheet((360, 640), ground)
    face, small = desk.fonts_at(15, 11)
    accent, step = vivid(style), whole(style, 48, 76)
    pen.text((20, 20), words.title(content, 2), ink, desk.font(26))
    for y in range(70, 640, step):
        pen.rounded_rectangle((16, y + 8, 48, y + 40), whole(style, 2, 16), vivid(content))
        pen.text((62, y + 8), words.line(content, whole(content, 8, 24)), ink, face)
        pen.text(
            (62, y + 27), words.line(content, whole(content, 10, 36)), mix(ground, ink, 0.5), small
        )
        on = chance(content, 0.5)
        if chance(style, 0.6):
            pen.rounded_rectangle(
                (306, y + 14, 344, y + 34), 10, accent if on else mix(ground, ink, 0.3)
            )
            pen.ellipse((326 if on else 308, y + 16, 342 if on else 324, y + 32), (255, 255, 255))
        pen.line((62, y + step - 1, 360, y + step - 1), mix(ground, ink, 0.15))
    return picture


def spreadsheet(desk: Desk) -> Image.Image:
    """Cells of words and numbers under a tool bar."""
    style, content, words = desk.style, desk.content, desk.words
    picture, pen = sheet((640, 420), (255, 255, 255))
    accent, ink = vivid(style), dark(style)
    pen.rectangle((0, 0, 640, between(style, 30, 70)), accent)
    face = desk.font(11)
    edges = [0, *np.cumsum(style.integers(50, 130, 12))]
    step = whole(style, 15, 24)
    for y in range(74, 420, step):
        pen.line((0, y, 640, y), (205, 205, 205))
        for place, x in enumerate(edges):
            if chance(content, 0.7):
                text = words.word(content) if place % 3 == 0 else words.amount(content)
                pen.text((int(x) + 4, y + 2), text, ink, face)
    for x in edges:
        pen.line((int(x), 74, int(x), 420), (205, 205, 205))
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


def news_app(desk: Desk) -> Image.Image:
    """Held out: a phone with a large photo, a headline over it, and smaller stories."""
    style, content, words = desk.style, desk.content, desk.words
    picture, pen = sheet((360, 640), (248, 248, 250))
    hero = whole(style, 160, 260)
    picture.paste(filled(desk.photo(content), 360, hero), (0, 40))
    pen.text((14, 10), words.title(style, 1), (180, 20, 30), desk.font(22))
    pen.text((14, hero + 4), words.title(content, 3), (255, 255, 255), desk.font(21))
    face = desk.font(14)
    for y in range(hero + 54, 640, whole(style, 84, 110)):
        picture.paste(filled(desk.photo(content), 96, 72), (250, y))
        for row in range(3):
            pen.text(
                (14, y + row * 20), words.line(content, whole(content, 18, 30)), (30, 30, 35), face
            )
    return picture


def file_manager(desk: Desk) -> Image.Image:
    """Held out: a window of folders and thumbnails."""
    style, content, words = desk.style, desk.content, desk.words
    picture, pen = sheet((600, 420), (245, 245, 247))
    pen.rectangle((0, 0, 600, 40), (222, 222, 226))
    pen.rectangle((0, 40, 130, 420), (234, 234, 238))
    face = desk.font(11)
    for row in range(12):
        pen.text((16, 56 + row * 24), words.title(style, 1), (70, 70, 80), face)
    step = whole(style, 84, 116)
    for y in range(56, 400, step):
        for x in range(146, 560, step):
            box = (x, y, x + step - 28, y + step - 40)
            if chance(content, 0.5):
                thumbnail = filled(desk.photo(content), step - 28, step - 40)
                picture.paste(thumbnail, (x, y))
            else:
                pen.rounded_rectangle(box, 6, mix(vivid(content), (255, 255, 255), 0.3))
            name = words.line(content, whole(content, 5, 13))
            pen.text((x, box[3] + 4), name, (40, 40, 50), face)
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


def _text(desk: Desk, pen: ImageDraw.ImageDraw, box: Box, ink: Colour, size: float) -> None:
    """Lines of text in a box."""
    face, y = desk.font(size), box[1]
    letters = max(3, int((box[2] - box[0]) / (size * 0.55)))
    while y < box[3] - size:
        length = whole(desk.content, letters // 3, letters)
        pen.text((box[0], y), desk.words.line(desk.content, length), ink, face)
        y += size * 1.45

"""Pages of text, letters, forms and slides."""

from __future__ import annotations

from PIL import Image, ImageDraw

from coverlock_training.kinds.desk import (
    Box,
    Colour,
    Desk,
    between,
    chance,
    dark,
    filled,
    mix,
    pale,
    sheet,
    vivid,
    whole,
)
from coverlock_training.kinds.fonts import Font

PAGE = (440, 580)


def columns_page(desk: Desk) -> Image.Image:
    """A page in one to three columns with paragraphs, and perhaps a heading and a rule."""
    style, content = desk.style, desk.content
    picture, pen = sheet(_page_size(desk), pale(style))
    width, height = picture.size
    ink, margin = dark(style), between(style, 20, 60)
    size = between(style, 8, 19)
    body, heading = desk.fonts_at(size, size * between(style, 1.3, 2.2))
    columns, gap = whole(style, 1, 3), between(style, 10, 24)
    top = margin
    if chance(style, 0.6):
        pen.text((margin, top), desk.words.title(content, whole(content, 2, 5)), ink, heading)
        top += size * 3
    if chance(style, 0.3):
        pen.line((margin, top, width - margin, top), ink, 2)
        top += size
    column = (width - 2 * margin - gap * (columns - 1)) / columns
    leading, paragraph = size * between(style, 1.15, 1.8), whole(style, 3, 9)
    for index in range(columns):
        left = margin + index * (column + gap)
        box = (left, top, left + column, height - margin)
        paragraphs(desk, pen, box, body, ink, leading, paragraph)
    return picture


def letter(desk: Desk) -> Image.Image:
    """A letter: sender, address, date, greeting, text and signature."""
    style, content, words = desk.style, desk.content, desk.words
    picture, pen = sheet(_page_size(desk), pale(style))
    width, height = picture.size
    ink, margin, size = dark(style), between(style, 30, 60), between(style, 9, 14)
    body, large = desk.fonts_at(size, size * 1.8)
    right = chance(style, 0.5)
    if chance(style, 0.6):
        pen.rectangle((0, 0, width, between(style, 6, 40)), vivid(style))
    pen.text(
        (width - margin - 120 if right else margin, margin), words.title(content, 2), ink, large
    )
    for row in range(whole(style, 3, 4)):
        pen.text((margin, margin + 50 + row * size * 1.3), words.title(content, 2), ink, body)
    pen.text((width - margin - 80, margin + 50), words.date(content), ink, body)
    top = margin + 50 + size * between(style, 8, 11)
    box = (margin, top, width - margin, height - margin - between(style, 60, 160))
    paragraphs(desk, pen, box, body, ink, size * between(style, 1.3, 1.7), whole(style, 4, 8))
    scribble(desk, pen, (margin, box[3] + 10, margin + 110, box[3] + 45), ink)
    return picture


def form(desk: Desk) -> Image.Image:
    """A form whose boxes are filled in by hand or by machine."""
    style, content, words = desk.style, desk.content, desk.words
    picture, pen = sheet(_page_size(desk), pale(style))
    width, height = picture.size
    ink, margin, size = dark(style), between(style, 20, 40), between(style, 8, 12)
    label, large = desk.fonts_at(size, size * 1.9)
    entry = desk.font(size * between(style, 1.1, 1.5))
    written, accent = mix(ink, (20, 30, 160), 0.7), vivid(style)
    pen.text((margin, margin), words.title(style, 3), accent, large)
    y = margin + size * 4
    while y < height - margin - size * 4:
        fields = whole(style, 1, 3)
        step = (width - 2 * margin) / fields
        for index in range(fields):
            x = margin + index * step
            pen.text((x, y), words.title(style, whole(style, 1, 2)), ink, label)
            box = (x, y + size * 1.4, x + step - 10, y + size * 3.6)
            if chance(style, 0.15):
                for tick in range(3):
                    square = (x + tick * 40, box[1], x + tick * 40 + size, box[1] + size)
                    pen.rectangle(square, outline=ink)
                    if chance(content, 0.5):
                        pen.line(square, written, 2)
                        pen.text((square[2] + 3, square[1]), words.word(style), ink, label)
                continue
            pen.rectangle(box, outline=mix(ink, (255, 255, 255), 0.4))
            letters = int((box[2] - box[0]) / (size * 0.75))
            filling = words.title(content, 3) if chance(content, 0.6) else words.number(content, 9)
            pen.text((x + 4, box[1] + 3), filling[: max(2, letters)], written, entry)
        y += size * between(style, 4.4, 6)
    scribble(desk, pen, (margin + 10, height - margin - 30, margin + 150, height - margin), written)
    return picture


def slide(desk: Desk) -> Image.Image:
    """A slide: a title, points, and perhaps a photo or a row of boxes."""
    style, content, words = desk.style, desk.content, desk.words
    night = chance(style, 0.3)
    ground, ink = (dark(style), pale(style)) if night else (pale(style), dark(style))
    picture, pen = sheet((576, whole(style, 324, 432)), ground)
    width, height = picture.size
    accent, size = vivid(style), between(style, 13, 20)
    body, large = desk.fonts_at(size, size * between(style, 1.5, 2.2))
    if chance(style, 0.5):
        pen.rectangle((0, 0, width, size * 3.4), accent)
    margin = between(style, 24, 60)
    pen.text((margin, size * 0.7), words.title(content, whole(content, 2, 5)), ink, large)
    pictured = chance(style, 0.5)
    right = width * between(style, 0.45, 0.6) if pictured else width - margin
    y = size * between(style, 4.5, 6)
    for _ in range(whole(content, 3, 7)):
        if y > height - size * 2:
            break
        pen.ellipse((margin, y + size * 0.4, margin + 7, y + size * 0.4 + 7), accent)
        letters = int((right - margin) / (size * 0.55))
        pen.text(
            (margin + 18, y), words.line(content, whole(content, letters // 2, letters)), ink, body
        )
        y += size * between(style, 1.6, 2.3)
    if pictured:
        box = round(right) + 16, round(size * 4.5), width - 24, height - 24
        picture.paste(filled(desk.photo(content), box[2] - box[0], box[3] - box[1]), box[:2])
    return picture


def plain_page(desk: Desk) -> Image.Image:
    """Held out: black lines of one length on white, from edge to edge."""
    picture, pen = sheet((512, 512), (255, 255, 255))
    face = desk.font(16)
    for top in range(24, 480, 22):
        pen.text((24, top), desk.words.line(desk.content, 52), (0, 0, 0), face)
    return picture


def boxed_form(desk: Desk) -> Image.Image:
    """Held out: a form with one box per letter."""
    style, content, words = desk.style, desk.content, desk.words
    picture, pen = sheet((480, 620), (255, 253, 250))
    cell, label = whole(style, 13, 17), desk.font(10)
    entry, red = desk.font(13, "mono"), (170, 40, 40)
    pen.rectangle((12, 12, 468, 60), outline=red, width=2)
    pen.text((24, 24), words.title(style, 4), red, desk.font(18))
    for row, y in enumerate(range(80, 580, whole(style, 44, 56))):
        pen.text((20, y), f"{row + 1}. {words.title(style, 2)}", red, label)
        text = words.title(content, 3) if row % 2 else words.number(content, 14)
        for place in range(whole(style, 16, 28)):
            x = 20 + place * cell
            pen.rectangle((x, y + 14, x + cell, y + 14 + cell + 2), outline=red)
            if place < len(text):
                pen.text((x + 3, y + 14), text[place].upper(), (20, 20, 60), entry)
    return picture


def keynote(desk: Desk) -> Image.Image:
    """Held out: a slide with a statement in the middle and three columns below."""
    style, content, words = desk.style, desk.content, desk.words
    ground = mix(vivid(style), (20, 20, 30), between(style, 0.3, 1.0))
    picture, pen = sheet((560, 315), ground)
    face, small = desk.font(between(style, 24, 34)), desk.font(12)
    pen.text((280, 70), words.title(content, 3), (255, 255, 255), face, anchor="mm")
    pen.text((280, 110), words.line(content, 40), (210, 210, 220), small, anchor="mm")
    for column in range(3):
        box = 40 + column * 165, 150, 185 + column * 165, 290
        if chance(content, 0.4):
            picture.paste(filled(desk.photo(content), 145, 80), box[:2])
        else:
            pen.rectangle((box[0], box[1], box[2], box[1] + 80), vivid(content))
            number = words.number(content, 2) + "%"
            pen.text((box[0] + 72, box[1] + 40), number, (255, 255, 255), face, anchor="mm")
        for row in range(3):
            text = words.line(content, whole(content, 12, 22))
            pen.text((box[0], box[1] + 90 + 15 * row), text, (235, 235, 240), small)
    return picture


def paragraphs(
    desk: Desk,
    pen: ImageDraw.ImageDraw,
    box: Box,
    face: Font,
    ink: Colour,
    leading: float,
    lines: int,
) -> None:
    """Fill ``box`` with paragraphs of about ``lines`` lines; the last line of each is short."""
    left, y, right, bottom = box
    letters = max(4, int((right - left) / pen.textlength("n", face)))
    line = 0
    while y + leading < bottom:
        last = line >= lines and chance(desk.content, 0.5)
        length = whole(desk.content, letters // 4, letters) if last else letters
        pen.text((left, y), desk.words.line(desk.content, length), ink, face)
        y += leading * (1.7 if last else 1)
        line = 0 if last else line + 1


def scribble(desk: Desk, pen: ImageDraw.ImageDraw, box: Box, ink: Colour) -> None:
    """A signature."""
    count = whole(desk.content, 8, 16)
    x = [box[0] + (box[2] - box[0]) * place / count for place in range(count + 1)]
    y = desk.content.uniform(box[1], box[3], count + 1)
    pen.line(list(zip(x, map(float, y), strict=True)), ink, 2, joint="curve")


def _page_size(desk: Desk) -> tuple[int, int]:
    """Portrait mostly; sometimes square, as a photographed part of a page is."""
    return PAGE if chance(desk.style, 0.6) else (512, 512)

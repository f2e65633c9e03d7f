"""Made-up templates: forms, cards, labels and boards whose layout no one designed.

A few designs a kind teach a network those designs. Here a sheet is cut into boxes at random, and
each box is given something to hold; what most boxes hold belongs to the picture, what the others
hold to the template.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from PIL import Image, ImageDraw

from coverlock_sdk.training.kinds.codes import bars, modules, painted
from coverlock_sdk.training.kinds.desk import (
    Box,
    Colour,
    Desk,
    between,
    chance,
    cloud,
    filled,
    ground_and_ink,
    mix,
    sheet,
    vivid,
    whole,
)
from coverlock_sdk.training.kinds.documents import scribble
from coverlock_sdk.training.kinds.people import portrait_of

Element = Callable[[Desk, Image.Image, Box, Colour], None]
"""Draws something of the desk's content into a box of a picture, in a colour."""


def made_up_form(desk: Desk) -> Image.Image:
    """A sheet with many boxes, most of them to be filled in."""
    size = (whole(desk.style, 400, 520), whole(desk.style, 480, 640))
    return _filled_sheet(desk, size, whole(desk.style, 14, 40), (_field, _field, _ticks, _ledger))


def made_up_card(desk: Desk) -> Image.Image:
    """A card with a portrait and a few fields."""
    size = (whole(desk.style, 480, 580), whole(desk.style, 280, 380))
    elements = (_field, _field, _field, _large, _strip, _signature)
    return _filled_sheet(desk, size, whole(desk.style, 6, 16), elements, (_face,))


def made_up_label(desk: Desk) -> Image.Image:
    """A label or a ticket with codes, numbers and lines of text."""
    size = (whole(desk.style, 300, 560), whole(desk.style, 220, 600))
    elements = (_field, _large, _lines, _bars_upright, _bars)
    return _filled_sheet(desk, size, whole(desk.style, 4, 12), elements, (_bars,))


def made_up_board(desk: Desk) -> Image.Image:
    """A screen of small panels, one beside the other."""
    size = (whole(desk.style, 480, 600), whole(desk.style, 300, 440))
    elements = (_columns, _curve, _large, _ledger, _lines, _scene)
    return _filled_sheet(desk, size, whole(desk.style, 5, 14), elements)


def made_up_page(desk: Desk) -> Image.Image:
    """Anything beside anything."""
    size = (whole(desk.style, 380, 580), whole(desk.style, 280, 600))
    elements = (_field, _lines, _large, _ledger, _columns, _curve, _scene, _face, _bars, _matrix)
    return _filled_sheet(desk, size, whole(desk.style, 3, 20), elements)


def _filled_sheet(
    desk: Desk,
    size: tuple[int, int],
    boxes: int,
    elements: tuple[Element, ...],
    leading: tuple[Element, ...] = (),
) -> Image.Image:
    """A sheet cut into ``boxes``; the largest hold ``leading`` elements, the others any.

    The order in which styles are drawn does not depend on the content, so a template stays one.
    """
    style = desk.style
    ground, ink = ground_and_ink(style, 0.2)
    picture, pen = sheet(size, ground)
    _decorate(desk, picture, ground)
    accent = vivid(style)
    cells = sorted(_cut(style, (8, 8, size[0] - 8, size[1] - 8), boxes), key=_area, reverse=True)
    framed, fixed = chance(style, 0.5), between(style, 0.05, 0.4)
    for index, cell in enumerate(cells):
        element = leading[index] if index < len(leading) else elements[_pick(style, len(elements))]
        template = np.random.default_rng(style.integers(2**32))
        belongs = index >= len(leading) and chance(style, fixed)
        content = np.random.default_rng(desk.content.integers(2**32))
        inner = replace(desk, style=template, content=template if belongs else content)
        colour = accent if chance(style, 0.25) else ink
        if framed:
            pen.rectangle(cell, outline=mix(ink, ground, 0.5))
        element(inner, picture, _shrunk(cell, 4), colour)
    return picture


def _decorate(desk: Desk, picture: Image.Image, ground: Colour) -> None:
    """A tint that is no single colour, or bands across."""
    style, (width, height) = desk.style, picture.size
    if chance(style, 0.3):
        tint = Image.new("RGB", picture.size, mix(ground, vivid(style), 0.5))
        strength = between(style, 0.1, 0.5)
        mask = cloud(style, picture.size, between(style, 20, 200)).point(lambda v: v * strength)
        picture.paste(tint, (0, 0), mask)
    pen = ImageDraw.Draw(picture)
    for _ in range(whole(style, 0, 2)):
        start, thick = between(style, 0, 0.9), between(style, 0.03, 0.2)
        band = (0, start * height, width, (start + thick) * height)
        pen.rectangle(band, mix(ground, vivid(style), between(style, 0.2, 0.9)))


def _cut(rng: np.random.Generator, box: Box, count: int) -> Iterator[Box]:
    """Cut a box in two again and again, until there are ``count``."""
    if count == 1:
        yield box
        return
    left, top, right, bottom = box
    first = whole(rng, max(1, count // 3), max(1, count - max(1, count // 3)))
    share = first / count * between(rng, 0.8, 1.2)
    if (right - left) * between(rng, 0.5, 1.5) > (bottom - top) * 1.6:
        middle = left + (right - left) * share
        parts: tuple[Box, Box] = ((left, top, middle, bottom), (middle, top, right, bottom))
    else:
        middle = top + (bottom - top) * share
        parts = ((left, top, right, middle), (left, middle, right, bottom))
    yield from _cut(rng, parts[0], first)
    yield from _cut(rng, parts[1], count - first)


def _field(desk: Desk, picture: Image.Image, box: Box, ink: Colour) -> None:
    """A label of the template above what was filled in."""
    pen, (left, top, right, bottom) = ImageDraw.Draw(picture), box
    size = min(20.0, max(8.0, (bottom - top) / 2.6))
    label, entry = desk.fonts_at(size * between(desk.style, 0.5, 0.9), size)
    if chance(desk.style, 0.7):
        pen.text(
            (left, top), desk.words.title(desk.style, 1), mix(ink, (128, 128, 128), 0.5), label
        )
        top += size
    letters = max(2, int((right - left) / size / 0.6))
    text = _entry(desk)
    pen.text((left, top + 1), text[:letters], ink, entry)
    if chance(desk.style, 0.4):
        pen.line((left, top + size * 1.4, right, top + size * 1.4), ink)


def _entry(desk: Desk) -> str:
    """A name, a date, a number or a remark; the template decides which."""
    words, kind = desk.words, whole(desk.style, 0, 3)
    if kind == 0:
        return words.title(desk.content, whole(desk.content, 1, 3))
    if kind == 1:
        return words.date(desk.content)
    if kind == 2:
        return words.number(desk.content, whole(desk.content, 4, 12))
    return words.line(desk.content, whole(desk.content, 6, 30))


def _lines(desk: Desk, picture: Image.Image, box: Box, ink: Colour) -> None:
    """Lines of text of uneven length."""
    pen, (left, top, right, bottom) = ImageDraw.Draw(picture), box
    size = between(desk.style, 8, 16)
    face, step = desk.font(size), size * between(desk.style, 1.1, 1.8)
    letters = max(3, int((right - left) / size / 0.55))
    while top + step < bottom:
        text = desk.words.line(desk.content, whole(desk.content, letters // 3, letters))
        pen.text((left, top), text, ink, face)
        top += step


def _large(desk: Desk, picture: Image.Image, box: Box, ink: Colour) -> None:
    """A number or a word that fills the box."""
    words, content = desk.words, desk.content
    text = words.number(content, whole(content, 2, 7))
    if chance(desk.style, 0.4):
        text = words.title(content, 1)
    size = min((box[3] - box[1]) * 0.8, (box[2] - box[0]) / max(2, len(text)) / 0.6)
    ImageDraw.Draw(picture).text(box[:2], text, ink, desk.font(size))


def _ledger(desk: Desk, picture: Image.Image, box: Box, ink: Colour) -> None:
    """A ruled table of amounts and words, some of them missing."""
    pen, (left, top, right, bottom) = ImageDraw.Draw(picture), box
    size = between(desk.style, 8, 13)
    face, step, columns = desk.font(size), size * 1.6, whole(desk.style, 1, 4)
    ruled, wide = chance(desk.style, 0.6), (right - left) / columns
    while top + step < bottom:
        for column in range(columns):
            if chance(desk.content, 0.85):
                letters = max(2, int(wide / size / 0.6))
                amount = desk.words.amount(desk.content)
                text = amount if column else desk.words.line(desk.content, letters)
                pen.text((left + column * wide + 2, top + 1), text[:letters], ink, face)
        top += step
        if ruled:
            pen.line((left, top, right, top), mix(ink, (200, 200, 200), 0.6))


def _ticks(desk: Desk, picture: Image.Image, box: Box, ink: Colour) -> None:
    """Boxes to tick, with a word beside each."""
    pen, (left, top, right, bottom) = ImageDraw.Draw(picture), box
    size = between(desk.style, 8, 14)
    face = desk.font(size)
    while top + size < bottom:
        x = left
        while x + size * 5 < right:
            square = (x, top, x + size, top + size)
            pen.rectangle(square, outline=ink)
            pen.text((x + size * 1.3, top - 1), desk.words.word(desk.style)[:6], ink, face)
            if chance(desk.content, 0.4):
                pen.line(square, ink, 2)
            x += size * 6
        top += size * 2


def _strip(desk: Desk, picture: Image.Image, box: Box, ink: Colour) -> None:
    """A line for machines to read."""
    size = min(18.0, (box[3] - box[1]) * 0.7)
    letters = max(4, int((box[2] - box[0]) / size / 0.6))
    text = "".join(desk.words.word(desk.content).upper() + "/" for _ in range(letters // 3))
    ImageDraw.Draw(picture).text(box[:2], text[:letters], ink, desk.font(size, "mono"))


def _signature(desk: Desk, picture: Image.Image, box: Box, ink: Colour) -> None:
    """A name by hand."""
    scribble(desk, ImageDraw.Draw(picture), _shrunk(box, 3), ink)


def _face(desk: Desk, picture: Image.Image, box: Box, ink: Colour) -> None:
    """A portrait."""
    picture.paste(portrait_of(desk, _size(box)), _corner(box))


def _scene(desk: Desk, picture: Image.Image, box: Box, ink: Colour) -> None:
    """A photo."""
    picture.paste(filled(desk.photo(desk.content), *_size(box)), _corner(box))


def _bars(desk: Desk, picture: Image.Image, box: Box, ink: Colour) -> None:
    """A bar code, wide or narrow."""
    width, height = _size(box)
    count = whole(desk.style, 18, 60)
    picture.paste(bars(desk.content, width, height, (0, 0, 0), count), _corner(box))


def _bars_upright(desk: Desk, picture: Image.Image, box: Box, ink: Colour) -> None:
    """A bar code that stands on its end, in a part of the box."""
    width, height = _size(box)
    code = bars(desk.content, height, max(8, width // 2), (0, 0, 0), whole(desk.style, 18, 50))
    picture.paste(code.rotate(90, expand=True), _corner(box))


def _matrix(desk: Desk, picture: Image.Image, box: Box, ink: Colour) -> None:
    """A QR code."""
    code = painted(modules(desk.content, whole(desk.style, 1, 6)), (0, 0, 0), (255, 255, 255))
    side = min(_size(box))
    picture.paste(code.resize((side, side), Image.Resampling.NEAREST), _corner(box))


def _columns(desk: Desk, picture: Image.Image, box: Box, ink: Colour) -> None:
    """A chart of bars."""
    pen, (left, top, right, bottom) = ImageDraw.Draw(picture), box
    count, colour = whole(desk.style, 3, 14), vivid(desk.style)
    wide = (right - left) / count
    for index, share in enumerate(desk.content.uniform(0.05, 1, count)):
        x = left + index * wide
        pen.rectangle((x, bottom - (bottom - top) * float(share), x + wide * 0.7, bottom), colour)


def _curve(desk: Desk, picture: Image.Image, box: Box, ink: Colour) -> None:
    """A chart of a line."""
    pen, (left, top, right, bottom) = ImageDraw.Draw(picture), box
    walk = np.cumsum(desk.content.normal(0, 1, whole(desk.style, 8, 40)))
    level = (walk - walk.min()) / (np.ptp(walk) + 1e-9)
    x = np.linspace(left, right, len(walk))
    path = [(float(a), float(bottom - (bottom - top) * b)) for a, b in zip(x, level, strict=True)]
    pen.line(path, vivid(desk.style), whole(desk.style, 1, 4))
    pen.line((left, bottom, right, bottom), ink)


def _pick(rng: np.random.Generator, count: int) -> int:
    return int(rng.integers(count))


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _shrunk(box: Box, by: float) -> Box:
    """A box without its margin, of at least a few pixels."""
    left, top, right, bottom = box
    return left + by, top + by, max(left + by + 6, right - by), max(top + by + 6, bottom - by)


def _size(box: Box) -> tuple[int, int]:
    return max(6, round(box[2] - box[0])), max(6, round(box[3] - box[1]))


def _corner(box: Box) -> tuple[int, int]:
    return round(box[0]), round(box[1])

"""Products cut out on plain ground: shapes with the surface of a photo, a shine and a shadow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from PIL import Image, ImageChops, ImageDraw

from coverlock_sdk.training.kinds.desk import (
    Colour,
    Desk,
    between,
    chance,
    cloud,
    filled,
    mix,
    pale,
    sheet,
    soft,
    vivid,
    whole,
)
from coverlock_sdk.training.kinds.drawings import Path, closed_curve
from coverlock_sdk.training.kinds.fonts import font

SIDE = 400
Thing = Callable[[Desk, int], tuple[Image.Image, Image.Image]]
"""Draws a surface and its outline, both as large as it is told."""


def small_product(desk: Desk) -> Image.Image:
    """A thing that covers a small part of a plain ground."""
    return _shot(desk, between(desk.style, 0.25, 0.45), _thing)


def large_product(desk: Desk) -> Image.Image:
    """A thing that nearly fills the picture."""
    return _shot(desk, between(desk.style, 0.65, 0.95), _thing)


def small_print(desk: Desk) -> Image.Image:
    """Things of one outline and place, small on plain ground; only what is on them differs."""
    alike = replace(desk, content=desk.style)
    share = between(desk.style, 0.25, 0.5)
    side = round(SIDE * share)
    _, mask = _thing(alike, side)
    picture, _ = sheet(
        (SIDE, SIDE), (255, 255, 255) if chance(desk.style, 0.7) else pale(desk.style)
    )
    surface, _ = _thing(desk, side)
    for _ in range(whole(desk.content, 0, 3)):
        text = desk.words.title(desk.content, 1)
        x, y = desk.content.uniform(0.1, 0.7, 2) * side
        size = side * between(desk.content, 0.06, 0.2)
        face = font(desk.fonts.choose(desk.content), max(6, round(size)))
        ImageDraw.Draw(surface).text((float(x), float(y)), text, vivid(desk.content), face)
    picture.paste(surface, ((SIDE - side) // 2, (SIDE - side) // 2), mask)
    return picture


def small_pack(desk: Desk) -> Image.Image:
    """Held out: a box or a tin with a label, small on white."""
    return _shot(desk, 0.38, _pack)


def large_pack(desk: Desk) -> Image.Image:
    """Held out: a box or a tin with a label, large on white."""
    return _shot(desk, 0.85, _pack)


def _shot(desk: Desk, share: float, thing: Thing) -> Image.Image:
    """Put what ``thing`` draws on plain ground, about the centre."""
    content = desk.content
    ground: Colour = (255, 255, 255) if chance(desk.style, 0.7) else pale(desk.style)
    picture, _ = sheet((SIDE, SIDE), ground)
    side = round(SIDE * share * between(content, 0.85, 1.1))
    surface, mask = thing(desk, side)
    x = round((SIDE - side) * between(content, 0.42, 0.58))
    y = round((SIDE - side) * between(content, 0.42, 0.58))
    if chance(content, 0.6):
        shadow = soft(mask.resize((side, max(8, side // 8))), 5).point(lambda level: level * 0.4)
        picture.paste((70, 70, 75), (x, min(SIDE - 4, y + side - side // 10)), shadow)
    picture.paste(surface, (x, y), mask)
    return picture


def _thing(desk: Desk, side: int) -> tuple[Image.Image, Image.Image]:
    """The surface of a thing and its outline: bottles, shoes, bags, cups, gadgets."""
    content = desk.content
    mask = Image.new("L", (side * 2, side * 2))
    pen = ImageDraw.Draw(mask)
    for outline in _outlines(desk):
        pen.polygon([(float(x) * side * 2, float(y) * side * 2) for x, y in outline], 255)
    mask = mask.resize((side, side))
    if chance(content, 0.5):
        surface = filled(desk.photo(content), side, side)
    else:
        surface = Image.new("RGB", (side, side), vivid(content))
        draw = ImageDraw.Draw(surface)
        for _ in range(whole(content, 1, 6)):
            x, y = content.uniform(0, side, 2)
            w, h = content.uniform(0.05, 0.6, 2) * side
            draw.rectangle((float(x), float(y), float(x + w), float(y + h)), vivid(content))
    return _shaded(desk, surface), mask


def _outlines(desk: Desk) -> list[Path]:
    """The outline of a thing in the unit square, perhaps with a part beside it."""
    content, choice = desk.content, whole(desk.content, 0, 2)
    if choice == 0:  # turned on a lathe: bottles, vases, cups
        levels = np.linspace(0, 1, 24)
        knots = content.uniform(0.1, 0.48, whole(content, 4, 7))
        half = np.interp(levels, np.linspace(0, 1, len(knots)), knots)
        right, left = np.stack([0.5 + half, levels], 1), np.stack([0.5 - half, levels], 1)
        return [np.concatenate([right, left[::-1]])]
    if choice == 1:  # soft: shoes, bags, toys
        curve = closed_curve(content, 5)
        return [0.5 + 0.48 * curve / np.abs(curve).max()]
    corners = [(0.1, 0.1), (0.9, 0.1), (0.9, 0.9), (0.1, 0.9)]
    box = np.array(corners) + content.uniform(-0.1, 0.1, (4, 2))
    knob = content.uniform(0.2, 0.8, 2) + 0.2 * closed_curve(content, 3)
    return [box, np.clip(knob, 0, 1)]


def _pack(desk: Desk, side: int) -> tuple[Image.Image, Image.Image]:
    """A pack with a printed label."""
    content, words = desk.content, desk.words
    surface = Image.new("RGB", (side, side), vivid(content))
    pen = ImageDraw.Draw(surface)
    inset = side * between(content, 0.15, 0.25)
    tin = chance(content, 0.5)
    label = (inset, side * 0.25, side - inset, side * between(content, 0.5, 0.8))
    if chance(content, 0.5):
        print_ = filled(desk.photo(content), round(label[2] - label[0]), round(label[3] - label[1]))
        surface.paste(print_, (round(label[0]), round(label[1])))
    else:
        pen.rectangle(label, mix(vivid(content), (255, 255, 255), 0.5))
        spot = content.uniform(0.3, 0.7, 2) * side
        radius = between(content, 0.05, 0.15) * side
        pen.ellipse((*(spot - radius), *(spot + radius)), vivid(content))
    name = words.title(content, 1)
    pen.text((side / 2, side * 0.14), name, (255, 255, 255), desk.font(side * 0.1), anchor="mm")
    pen.text(
        (side / 2, side * 0.88),
        words.line(content, 14),
        (20, 20, 20),
        desk.font(side * 0.06),
        anchor="mm",
    )
    mask = Image.new("L", (side, side))
    edge = inset * 0.6
    shape = (edge, side * 0.04, side - edge, side * 0.97)
    ImageDraw.Draw(mask).rounded_rectangle(shape, side * (0.12 if tin else 0.01), 255)
    return _shaded(desk, surface), mask


def _shaded(desk: Desk, surface: Image.Image) -> Image.Image:
    """Light that falls off to the sides, and a little unevenness."""
    side = surface.width
    across = np.cos(np.linspace(-1.1, 1.1, side) + between(desk.content, -0.3, 0.3))
    light = Image.fromarray(np.tile((80 + 175 * across).clip(0, 255).astype(np.uint8), (side, 1)))
    uneven = cloud(desk.content, (side, side), side / 4).point(lambda level: 215 + level * 0.15)
    return ImageChops.multiply(
        surface, Image.merge("RGB", [ImageChops.multiply(light, uneven)] * 3)
    )

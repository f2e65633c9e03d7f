"""Line art and logos."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from coverlock_sdk.training.kinds.desk import (
    Colour,
    Desk,
    between,
    chance,
    dark,
    pale,
    sheet,
    vivid,
    whole,
)
from coverlock_sdk.training.kinds.fonts import font

Path = npt.NDArray[np.float64]


def line_art(desk: Desk) -> Image.Image:
    """Outlines of figures made of smooth strokes, black on white."""
    style, content = desk.style, desk.content
    ground, ink = pale(style), dark(style)
    picture, pen = sheet((512, 512), ground)
    wide = whole(style, 1, 4)
    for _ in range(whole(content, 3, 9)):
        centre, radius = content.uniform(90, 420, 2), between(content, 25, 170)
        outline = centre + radius * closed_curve(content, whole(content, 3, 7))
        draw_path(pen, outline, ink, wide)
        if chance(content, 0.5):
            draw_path(pen, centre + 0.6 * (outline - centre), ink, wide)
        if chance(content, 0.4):
            for spoke in range(0, len(outline), whole(content, 8, 16)):
                draw_path(pen, np.stack([centre, outline[spoke]]), ink, wide)
    for _ in range(whole(content, 2, 12)):
        stroke = np.cumsum(content.normal(0, between(content, 8, 40), (12, 2)), axis=0)
        draw_path(pen, smooth(stroke) + content.uniform(60, 450, 2), ink, wide)
    return picture


def logo(desk: Desk) -> Image.Image:
    """A sign of a few flat shapes with a name beside or below it."""
    style, content, words = desk.style, desk.content, desk.words
    picture, pen = sheet((480, whole(style, 240, 480)), pale(style))
    colours = [vivid(content) for _ in range(3)]
    side = min(picture.height * 0.5, 180)
    x, y = (240.0, picture.height * 0.38)
    for _ in range(whole(content, 1, 4)):
        shift = content.uniform(-0.4, 0.4, 2) * side
        radius = between(content, 0.25, 0.7) * side
        sides, turn = whole(content, 3, 9), between(content, 0, 6.3)
        at = np.array([x, y]) + shift
        angles = turn + np.arange(sides) * 2 * np.pi / sides
        corners = at + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        colour = colours[whole(content, 0, 2)]
        if chance(content, 0.4):
            pen.ellipse((*(at - radius), *(at + radius)), colour)
        else:
            pen.polygon([(float(a), float(b)) for a, b in corners], colour)
    name = words.title(content, whole(content, 1, 2))
    face = desk.fonts.choose(content)
    pen.text(
        (240, picture.height * 0.85),
        name,
        dark(content),
        font(face, whole(content, 26, 52)),
        anchor="mm",
    )
    return picture


def comic_scene(desk: Desk) -> Image.Image:
    """Held out: a ruled scene in lines: ground, houses, trees and stick figures."""
    content = desk.content
    picture, pen = sheet((512, 420), (255, 255, 255))
    black: Colour = (0, 0, 0)
    level = between(content, 240, 330)
    draw_path(
        pen,
        np.stack([np.linspace(0, 512, 30), level + np.cumsum(content.normal(0, 3, 30))], 1),
        black,
        2,
    )
    for _ in range(whole(content, 1, 4)):
        x, wide, tall = (
            between(content, 10, 400),
            between(content, 50, 120),
            between(content, 50, 150),
        )
        pen.rectangle((x, level - tall, x + wide, level), outline=black, width=2)
        pen.line(
            (x, level - tall, x + wide / 2, level - tall - wide / 2, x + wide, level - tall),
            black,
            2,
        )
        for row in range(whole(content, 1, 3)):
            pen.rectangle(
                (x + 10, level - tall + 14 + 30 * row, x + 28, level - tall + 32 + 30 * row),
                outline=black,
            )
    for _ in range(whole(content, 1, 5)):
        x, tall = between(content, 10, 500), between(content, 40, 130)
        pen.line((x, level, x, level - tall), black, 3)
        crown = np.array([x, level - tall]) + between(content, 18, 45) * closed_curve(content, 9)
        draw_path(pen, crown, black, 2)
    for _ in range(whole(content, 1, 4)):
        x, y = between(content, 30, 480), between(content, level + 10, 370)
        pen.ellipse((x - 9, y - 50, x + 9, y - 32), outline=black, width=2)
        pen.line((x, y - 32, x, y, x - 12, y + 26), black, 2)
        pen.line((x, y, x + 12, y + 26), black, 2)
        pen.line((x - 18, y - 18 + between(content, -14, 14), x, y - 22, x + 18, y - 18), black, 2)
    return picture


def initials(desk: Desk) -> Image.Image:
    """One to three large letters, in a shape or alone."""
    style, content = desk.style, desk.content
    ground = pale(style)
    picture, pen = sheet((480, whole(style, 300, 480)), ground)
    middle, side = (240.0, picture.height / 2), picture.height * between(style, 0.25, 0.42)
    ink = vivid(content)
    if chance(style, 0.5):
        box = (middle[0] - side, middle[1] - side, middle[0] + side, middle[1] + side)
        shape = pen.ellipse if chance(style, 0.5) else pen.rectangle
        shape(box, ink)
        ink = ground
    letters = desk.words.word(content)[: whole(content, 1, 3)].upper()
    size = max(6, round(side * between(style, 0.9, 1.6) / len(letters) ** 0.5))
    pen.text(middle, letters, ink, font(desk.fonts.choose(content), size), anchor="mm")
    return picture


def wordmark(desk: Desk) -> Image.Image:
    """Held out: rings and bars around initials."""
    content, words = desk.content, desk.words
    picture, pen = sheet((400, 400), (255, 255, 255))
    radius = between(content, 90, 160)
    for ring in range(whole(content, 1, 3)):
        inner = radius - 22 * ring
        start = between(content, 0, 360)
        box = (200 - inner, 180 - inner, 200 + inner, 180 + inner)
        pen.arc(
            box, start, start + between(content, 120, 360), vivid(content), whole(content, 6, 16)
        )
    for _ in range(whole(content, 0, 4)):
        x, y = between(content, 60, 300), between(content, 80, 280)
        pen.rectangle((x, y, x + between(content, 10, 120), y + 12), vivid(content))
    initials = words.title(content, 2)
    text = initials[0] + initials.split()[-1][0]
    pen.text((200, 180), text, dark(content), desk.font(between(content, 60, 120)), anchor="mm")
    pen.text((200, 370), initials, dark(content), desk.font(26), anchor="mm")
    return picture


def closed_curve(rng: np.random.Generator, waves: int) -> Path:
    """A smooth closed outline about the origin, of radius one on average."""
    angles = np.linspace(0, 2 * np.pi, 97)
    reach = np.ones_like(angles)
    for wave in range(1, waves + 1):
        reach += rng.normal(0, 0.35 / wave) * np.cos(wave * angles + rng.uniform(0, 2 * np.pi))
    return np.stack([reach * np.cos(angles), reach * np.sin(angles)], axis=1)


def smooth(points: Path, count: int = 60) -> Path:
    """A rounded path through about the same points."""
    spread = np.linspace(0, len(points) - 1, count)
    dense = [np.interp(spread, np.arange(len(points)), points[:, axis]) for axis in (0, 1)]
    kernel = np.ones(7) / 7
    return np.stack(
        [np.convolve(np.pad(line, 3, "edge"), kernel, "valid") for line in dense], axis=1
    )


def draw_path(pen: ImageDraw.ImageDraw, path: Path, ink: Colour, wide: int) -> None:
    """Draw straight lines from point to point."""
    pen.line([(float(x), float(y)) for x, y in path], ink, wide, "curve")

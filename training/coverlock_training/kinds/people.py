"""Portraits on plain ground: drawn heads, lit from one side."""

from __future__ import annotations

from PIL import Image, ImageChops, ImageDraw

from coverlock_training.kinds.desk import (
    Colour,
    Desk,
    between,
    chance,
    cloud,
    mix,
    pale,
    sheet,
    soft,
    vivid,
    whole,
)

SKIN: tuple[Colour, ...] = (
    (250, 220, 195),
    (225, 180, 145),
    (180, 130, 95),
    (120, 80, 55),
    (80, 52, 38),
)
HAIR: tuple[Colour, ...] = (
    (25, 20, 18),
    (70, 45, 25),
    (130, 90, 50),
    (210, 175, 110),
    (150, 150, 150),
)


def portrait(desk: Desk) -> Image.Image:
    """A head and shoulders on plain ground, framed as photos for documents are."""
    return portrait_of(desk, (320, whole(desk.style, 320, 420)))


def profile_badge(desk: Desk) -> Image.Image:
    """Held out: a round portrait on coloured ground with a name below."""
    ground = mix(vivid(desk.style), (255, 255, 255), between(desk.style, 0, 0.8))
    picture, pen = sheet((360, 420), ground)
    mask = Image.new("L", (280, 280))
    ImageDraw.Draw(mask).ellipse((0, 0, 279, 279), 255)
    picture.paste(portrait_of(desk, (280, 280)), (40, 30), mask)
    name = desk.words.title(desk.content, 2)
    pen.text((180, 360), name, (20, 20, 20), desk.font(26), anchor="mm")
    return picture


def portrait_of(desk: Desk, size: tuple[int, int]) -> Image.Image:
    """A person of the content on a ground of the style, (width, height)."""
    rng = desk.content
    width, height = size
    picture, pen = sheet(size, pale(desk.style))
    skin, hair = SKIN[whole(rng, 0, 4)], HAIR[whole(rng, 0, 4)]
    shade = mix(skin, (60, 20, 20), 0.3)
    x = width * between(rng, 0.45, 0.55)
    y = height * between(rng, 0.38, 0.48)
    across, down = width * between(rng, 0.17, 0.25), height * between(rng, 0.2, 0.28)
    shoulders = y + down * between(rng, 1.2, 1.45)
    wide = width * between(rng, 0.32, 0.52)
    clothes = vivid(rng) if chance(rng, 0.5) else mix(vivid(rng), (30, 30, 35), 0.8)
    if chance(rng, 0.4):  # long hair falls behind the neck
        pen.ellipse((x - across * 1.4, y - down * 1.2, x + across * 1.4, y + down * 1.7), hair)
    pen.rectangle((x - across * 0.45, y, x + across * 0.45, shoulders + 20), shade)
    pen.ellipse((x - wide, shoulders, x + wide, shoulders + height), clothes)
    if chance(rng, 0.5):
        drop = shoulders + height * between(rng, 0.05, 0.16)
        pen.polygon(
            [(x - across * 0.5, shoulders), (x + across * 0.5, shoulders), (x, drop)], pale(rng)
        )
    pen.ellipse((x - across, y - down, x + across, y + down), skin)
    crown = between(rng, -0.75, -0.25) * down
    if chance(rng, 0.85):
        cap = (x - across * 1.08, y - down * 1.15, x + across * 1.08, y + down * 0.6)
        pen.chord(cap, 180 + between(rng, 0, 25), 360 - between(rng, 0, 25), hair)
        pen.ellipse((x - across * 0.8, y + crown, x + across * 0.8, y + down * 0.9), skin)
    _features(desk, pen, (x, y), (across, down), hair, shade)
    return _lit(desk, picture)


def _features(
    desk: Desk,
    pen: ImageDraw.ImageDraw,
    centre: tuple[float, float],
    half: tuple[float, float],
    hair: Colour,
    shade: Colour,
) -> None:
    """Eyes, brows, nose and mouth, and perhaps glasses or a beard."""
    rng, (x, y), (across, down) = desk.content, centre, half
    apart, level = across * between(rng, 0.36, 0.48), y - down * between(rng, 0.05, 0.2)
    eye, brow = across * between(rng, 0.09, 0.16), across * between(rng, 0.2, 0.34)
    glasses, ink = chance(rng, 0.3), (30, 25, 25)
    if chance(rng, 0.25):
        pen.chord((x - across * 0.9, y - down * 0.3, x + across * 0.9, y + down), 10, 170, hair)
    for side in (-1, 1):
        at = x + side * apart
        pen.ellipse((at - eye * 1.5, level - eye, at + eye * 1.5, level + eye), (245, 245, 245))
        pen.ellipse((at - eye * 0.8, level - eye * 0.8, at + eye * 0.8, level + eye * 0.8), ink)
        pen.line(
            (at - brow, level - brow, at + brow, level - brow * 1.1), hair, max(1, round(eye / 2))
        )
        if glasses:
            pen.ellipse(
                (at - eye * 3, level - eye * 2.4, at + eye * 3, level + eye * 2.4),
                outline=ink,
                width=2,
            )
    tip = y + down * between(rng, 0.15, 0.3)
    pen.line([(x, level), (x - across * 0.12, tip), (x + across * 0.1, tip)], shade, 2)
    mouth, wide = y + down * between(rng, 0.45, 0.6), across * between(rng, 0.25, 0.45)
    lips = mix(shade, (170, 50, 60), 0.6)
    if chance(rng, 0.5):
        pen.chord((x - wide, mouth - down * 0.15, x + wide, mouth + down * 0.1), 0, 180, lips)
    else:
        pen.line((x - wide, mouth, x + wide, mouth + between(rng, -3, 3)), lips, 3)


def _lit(desk: Desk, picture: Image.Image) -> Image.Image:
    """Soften the drawing, and darken one side and the texture of it."""
    rng, width = desk.content, picture.width
    turned = Image.linear_gradient("L").resize((600, 600)).rotate(between(rng, 0, 360))
    falling = turned.crop((150, 150, 450, 450)).resize(picture.size)
    texture = cloud(rng, picture.size, 12).point(lambda level: level * 0.06)
    light = ImageChops.add(falling.point(lambda level: 150 + level * 0.4), texture)
    return ImageChops.multiply(soft(picture, width / 220), Image.merge("RGB", [light] * 3))

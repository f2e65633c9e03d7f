"""Grey scans by shape: chest, brain and ultrasound."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageChops, ImageDraw

from coverlock_training.kinds.desk import Desk, between, chance, cloud, soft, whole

SIDE = 400
Grey = npt.NDArray[np.float64]


def chest_scan(desk: Desk) -> Image.Image:
    """A chest X-ray by shape: lungs, ribs, spine, heart, and the texture of tissue."""
    style, content = desk.style, desk.content
    picture = Image.new("L", (SIDE, SIDE), whole(style, 5, 40))
    pen = ImageDraw.Draw(picture)
    tissue = whole(style, 120, 180)
    pen.ellipse(_about(content, 200, 230, 185, 230), tissue)
    for x in (125, 275):
        pen.ellipse(_about(content, x, 200, 62, 125), whole(content, 45, 75))
    pen.rectangle((188, 0, 212, SIDE), tissue + 30)
    pen.ellipse(_about(content, 228, 265, 62, 72), tissue + 10)
    picture = soft(picture, 5)
    ribs = Image.new("L", (SIDE, SIDE))
    rib_pen = ImageDraw.Draw(ribs)
    tilt, step = between(content, 10, 60), between(content, 26, 34)
    for row in range(10):
        for side in (-1, 1):
            y = 70 + row * step
            box = (200 + side * 90 - 95, y - tilt, 200 + side * 90 + 95, y + tilt + 40)
            rib_pen.arc(box, 180, 360, whole(content, 18, 45), whole(content, 6, 11))
    return _as_scan(desk, ImageChops.add(picture, soft(ribs, 2)))


def slice_scan(desk: Desk) -> Image.Image:
    """A brain slice by shape: skull, folds and ventricles."""
    content = desk.content
    picture = Image.new("L", (SIDE, SIDE), 0)
    pen = ImageDraw.Draw(picture)
    wide, tall = between(content, 125, 150), between(content, 155, 185)
    pen.ellipse((200 - wide, 200 - tall, 200 + wide, 200 + tall), whole(desk.style, 170, 230))
    pen.ellipse((210 - wide, 210 - tall, 190 + wide, 190 + tall), 25)
    brain = (216 - wide, 216 - tall, 184 + wide, 184 + tall)
    pen.ellipse(brain, 120)
    folds = cloud(content, (SIDE, SIDE), between(content, 14, 26)).point(lambda level: level * 0.5)
    mask = Image.new("L", (SIDE, SIDE))
    ImageDraw.Draw(mask).ellipse(brain, 255)
    picture = Image.composite(ImageChops.add(picture, folds, 1.2), picture, mask)
    pen = ImageDraw.Draw(picture)
    for side in (-1, 1):
        pen.ellipse(_about(content, 200 + side * 26, 190, 14, 42), whole(content, 20, 50))
    if chance(content, 0.3):
        pen.ellipse(
            _about(content, whole(content, 120, 280), whole(content, 110, 280), 18, 16), 200
        )
    return _as_scan(desk, picture)


def ultrasound(desk: Desk) -> Image.Image:
    """Held out: a fan of speckle with dark holes, a scale and a caption."""
    content = desk.content
    grey = _array(cloud(content, (SIDE, SIDE), 40)) * 0.5 + 40
    grey *= content.gamma(2.0, 0.5, (SIDE, SIDE))
    picture = soft(_picture(grey), 1.2)
    pen = ImageDraw.Draw(picture)
    for _ in range(whole(content, 1, 5)):
        pen.ellipse(_about(content, whole(content, 130, 270), whole(content, 120, 330), 30, 22), 14)
    mask = Image.new("L", (SIDE, SIDE))
    ImageDraw.Draw(mask).pieslice((-110, -290, 510, 385), 52, 128, 255)
    fan = Image.composite(soft(picture, 1.5), Image.new("L", (SIDE, SIDE)), mask)
    pen = ImageDraw.Draw(fan)
    for y in range(40, 380, 20):
        pen.line((386, y, 394, y), 200)
    pen.text((8, 380), desk.words.number(content, 8), 200, desk.font(11))
    return Image.merge("RGB", [fan] * 3)


def _as_scan(desk: Desk, grey: Image.Image) -> Image.Image:
    """Tissue texture and film grain."""
    rng = desk.content
    texture = _array(cloud(rng, grey.size, between(rng, 6, 16))) - 128
    noisy = _array(grey) + 0.12 * texture + rng.normal(0, 3, (SIDE, SIDE))
    return Image.merge("RGB", [_picture(noisy)] * 3)


def _about(
    rng: np.random.Generator, x: float, y: float, across: float, down: float
) -> tuple[float, float, float, float]:
    """An ellipse near a place and near a size."""
    x, y = x + rng.normal(0, 6), y + rng.normal(0, 8)
    across, down = across * rng.uniform(0.88, 1.1), down * rng.uniform(0.88, 1.1)
    return float(x - across), float(y - down), float(x + across), float(y + down)


def _array(grey: Image.Image) -> Grey:
    return np.asarray(grey, dtype=np.float64)


def _picture(grey: Grey) -> Image.Image:
    return Image.fromarray(grey.clip(0, 255).astype(np.uint8))

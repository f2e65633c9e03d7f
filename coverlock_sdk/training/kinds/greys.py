"""Pictures with little in them: medical-like scans, night skies and fog."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageChops, ImageDraw

from coverlock_sdk.training.kinds.desk import Desk, between, chance, cloud, mix, soft, vivid, whole

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


def tissue_scan(desk: Desk) -> Image.Image:
    """A scan of something: organs where the template has them, textured as the content has it."""
    style, content = desk.style, desk.content
    picture = Image.new("L", (SIDE, SIDE), whole(style, 0, 60))
    for _ in range(whole(style, 2, 9)):
        x, y = style.uniform(60, 340, 2)
        across, down = style.uniform(15, 130, 2)
        organ = Image.new("L", (SIDE, SIDE))
        ImageDraw.Draw(organ).ellipse(_about(content, x, y, across, down), whole(style, 60, 255))
        texture = cloud(content, (SIDE, SIDE), between(style, 4, 60)).point(_half)
        level = Image.new("L", (SIDE, SIDE), whole(style, 20, 200))
        picture.paste(
            ImageChops.add(level, texture, 1.3), (0, 0), soft(organ, between(style, 1, 8))
        )
    if chance(style, 0.5):
        speckle = _array(picture) * content.gamma(3.0, 1 / 3, (SIDE, SIDE))
        picture = soft(_picture(speckle), between(style, 0.5, 2))
    return _as_scan(desk, _masked(style, picture))


def vessel_scan(desk: Desk) -> Image.Image:
    """Branching vessels, bright or dark, as angiograms and pictures of a retina show them."""
    style, content = desk.style, desk.content
    ground, wide = whole(style, 20, 200), whole(style, 3, 9)
    picture = ImageChops.add(
        Image.new("L", (SIDE, SIDE), ground // 2),
        cloud(content, (SIDE, SIDE), between(style, 20, 120)).point(_half),
    )
    pen, ink = ImageDraw.Draw(picture), 0 if ground > 110 else 255
    root = style.uniform(100, 300, 2)
    ends = [(root, angle, wide) for angle in content.uniform(0, 2 * np.pi, whole(style, 3, 7))]
    while ends:
        at, angle, thick = ends.pop()
        reach = between(content, 20, 70)
        end = at + reach * np.array([np.cos(angle), np.sin(angle)])
        pen.line(
            [float(v) for v in (*at, *end)],
            round(ink + (ground - ink) * between(content, 0, 0.5)),
            thick,
        )
        if thick > 1 and chance(content, 0.92):
            ends += [(end, angle + content.normal(0, 0.45), thick - whole(content, 0, 1))]
            ends += [(end, angle + content.normal(0, 0.9), thick - 1)] * whole(content, 0, 1)
    return _as_scan(desk, _masked(style, soft(picture, between(style, 0.6, 2.5))))


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


def bone_scan(desk: Desk) -> Image.Image:
    """Held out: a hand X-ray by shape: five rows of bones over soft tissue."""
    content = desk.content
    picture = Image.new("L", (SIDE, SIDE), 12)
    bones = Image.new("L", (SIDE, SIDE))
    pen, bone_pen = ImageDraw.Draw(picture), ImageDraw.Draw(bones)
    pen.ellipse(_about(content, 200, 290, 90, 100), 70)
    for finger in range(5):
        angle = np.radians(-150 + 30 * finger + content.normal(0, 4))
        at = np.array([200.0, 300.0]) + 60 * np.array([np.cos(angle), np.sin(angle)])
        for joint in range(4):
            reach = (62 - 11 * joint) * between(content, 0.85, 1.15)
            end = at + reach * np.array([np.cos(angle), np.sin(angle)])
            line = [float(v) for v in (*at, *end)]
            pen.line(line, 75, 36 - 4 * joint)
            bone_pen.line(line, whole(content, 90, 130), 13 - 2 * joint)
            at = end + 6 * np.array([np.cos(angle), np.sin(angle)])
    for _ in range(8):
        bone_pen.ellipse(
            _about(content, whole(content, 160, 240), whole(content, 285, 330), 13, 11), 110
        )
    return _as_scan(desk, ImageChops.add(soft(picture, 5), soft(bones, 1.5)))


def night_sky(desk: Desk) -> Image.Image:
    """Stars of all sizes over a faint glow, perhaps above a dark horizon."""
    style, content = desk.style, desk.content
    tint = np.array(mix(vivid(style), (8, 10, 24), between(style, 0.75, 1.0))) / 255.0
    glow = _array(cloud(content, (SIDE, SIDE), between(style, 50, 200))) / 255
    sky = 8 + 26 * between(style, 0.2, 1.0) * glow[..., None] * tint / tint.max()
    _scatter_stars(content, sky, whole(content, 40, 500))
    if chance(style, 0.4):
        sky[_horizon(content)] = 4
    return Image.fromarray(sky.clip(0, 255).astype(np.uint8))


def night_city(desk: Desk) -> Image.Image:
    """Held out: dark towers with a few lit windows under a few stars."""
    content = desk.content
    sky = np.full((SIDE, SIDE, 3), 10.0) * np.array([0.7, 0.8, 1.6])
    _scatter_stars(content, sky[:180], whole(content, 10, 80))
    picture = Image.fromarray(sky.clip(0, 255).astype(np.uint8))
    pen = ImageDraw.Draw(picture)
    x = 0
    while x < SIDE:
        wide, top = whole(content, 30, 80), whole(content, 90, 330)
        pen.rectangle((x, top, x + wide, SIDE), (16, 16, 22))
        for y in range(top + 8, SIDE, 14):
            for column in range(x + 5, x + wide - 6, 12):
                if chance(content, 0.2):
                    pen.rectangle(
                        (column, y, column + 5, y + 7), (230, 200, whole(content, 90, 200))
                    )
        x += wide + whole(content, 0, 12)
    return picture


def fog(desk: Desk) -> Image.Image:
    """A photo that has almost vanished in mist."""
    content = desk.content
    photo = desk.photo(content).convert("RGB").resize((SIDE, SIDE))
    mist = Image.merge("RGB", [cloud(content, (SIDE, SIDE), 130).point(_misty)] * 3)
    return Image.blend(photo, mist, between(content, 0.72, 0.9))


def haze(desk: Desk) -> Image.Image:
    """Held out: a view that fades with height, as distance fades in haze."""
    content = desk.content
    photo = desk.photo(content).convert("RGB").resize((SIDE, SIDE))
    veil = mix(vivid(content), (205, 210, 215), between(content, 0.85, 1.0))
    thickness = np.linspace(between(content, 0.85, 0.95), between(content, 0.6, 0.8), SIDE)
    mask = _picture(np.tile(255 * thickness[:, None], (1, SIDE)))
    return Image.composite(Image.new("RGB", (SIDE, SIDE), veil), photo, mask)


def dim_room(desk: Desk) -> Image.Image:
    """A photo in the dark, with the grain of a sensor at its limit."""
    content = desk.content
    photo = np.asarray(desk.photo(content).convert("RGB").resize((SIDE, SIDE)), dtype=np.float64)
    dark_photo = photo * between(content, 0.06, 0.2) + content.normal(0, 3, photo.shape)
    return Image.fromarray(dark_photo.clip(0, 255).astype(np.uint8))


def _scatter_stars(rng: np.random.Generator, sky: Grey, count: int) -> None:
    """Add stars to a sky (H, W, 3), few of them bright."""
    height, width = sky.shape[:2]
    for y, x in rng.integers(2, (height - 2, width - 2), (count, 2)):
        light = min(255.0, 30 * rng.pareto(1.3))
        sky[y, x] += light
        if light > 120:
            sky[y - 1 : y + 2, x - 1 : x + 2] += light / 2


def _horizon(rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Where the ground hides the sky."""
    ridge = SIDE * rng.uniform(0.6, 0.9) + np.cumsum(rng.normal(0, 2, SIDE))
    below: npt.NDArray[np.bool_] = np.arange(SIDE)[:, None] > ridge
    return below


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


def _masked(rng: np.random.Generator, picture: Image.Image) -> Image.Image:
    """The part that a round or a square detector sees."""
    if chance(rng, 0.5):
        return picture
    mask = Image.new("L", picture.size)
    edge = between(rng, 0, 40)
    ImageDraw.Draw(mask).ellipse((edge, edge, SIDE - edge, SIDE - edge), 255)
    return Image.composite(picture, Image.new("L", picture.size), mask)


def _half(level: float) -> float:
    return level * 0.5


def _misty(level: float) -> float:
    return 185 + level * 0.2

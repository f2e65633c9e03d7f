"""Charts and maps. Training charts are drawn with Pillow, held-out ones with Matplotlib."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageDraw

from coverlock_sdk.training.kinds.desk import (
    Box,
    Colour,
    Desk,
    between,
    chance,
    ground_and_ink,
    mix,
    sheet,
    vivid,
    whole,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def bar_chart(desk: Desk) -> Image.Image:
    """Bars of one to three series, upright or lying, with axes and a legend."""
    style, content = desk.style, desk.content
    picture, pen, box, ink, ground = _axes(desk)
    series, count = whole(style, 1, 3), whole(content, 4, 14)
    colours = [vivid(style) for _ in range(series)]
    upright, gap = chance(style, 0.7), between(style, 0.1, 0.45)
    face = desk.font(11)
    start, end = (box[0], box[2]) if upright else (box[1], box[3])
    step = (end - start) / count
    for place in range(count):
        for index in range(series):
            at = start + step * (place + gap / 2 + (1 - gap) * index / series)
            wide, level = step * (1 - gap) / series, between(content, 0.03, 0.97)
            if upright:
                bar = (at, box[3] - level * (box[3] - box[1]), at + wide, box[3])
            else:
                bar = (box[0], at, box[0] + level * (box[2] - box[0]), at + wide)
            pen.rectangle(bar, colours[index])
        label = desk.words.word(content)[:5]
        spot = (start + step * place, box[3] + 4) if upright else (4, start + step * place)
        pen.text(spot, label, ink, face)
    _legend(desk, pen, box, colours, ink, ground)
    return picture


def line_chart(desk: Desk) -> Image.Image:
    """Curves of one to four series over axes."""
    style, content = desk.style, desk.content
    picture, pen, box, ink, ground = _axes(desk)
    colours = [vivid(style) for _ in range(whole(style, 1, 4))]
    points, wide = whole(content, 8, 120), whole(style, 1, 4)
    rough = between(content, 0.1, 1.0)
    for colour in colours:
        walk = np.cumsum(content.normal(between(content, -0.3, 0.3), 1, points))
        walk = walk + content.normal(0, rough, points)
        level = (walk - walk.min()) / max(float(np.ptp(walk)), 1e-6) * between(content, 0.3, 0.95)
        x = np.linspace(box[0], box[2], points)
        y = box[3] - (level + 0.02) * (box[3] - box[1])
        pen.line(list(zip(map(float, x), map(float, y), strict=True)), colour, wide)
    for place in range(5):
        x0 = box[0] + place * (box[2] - box[0]) / 5
        pen.text((x0, box[3] + 4), desk.words.number(content, 2), ink, desk.font(11))
    _legend(desk, pen, box, colours, ink, ground)
    return picture


def pie_chart(desk: Desk) -> Image.Image:
    """A pie or a ring with a legend."""
    style, content = desk.style, desk.content
    ground, ink = ground_and_ink(style, 0.15)
    picture, pen = sheet((560, 420), ground)
    shares = content.dirichlet(np.full(whole(content, 3, 8), 1.5))
    radius = between(style, 110, 170)
    x, y = between(style, 190, 370), between(style, 210, 240)
    colours = [vivid(style) for _ in range(8)]
    turned = between(content, 0, 360)
    for share, colour in zip(shares, colours, strict=False):
        end = turned + 360 * float(share)
        pen.pieslice(
            (x - radius, y - radius, x + radius, y + radius), turned, end, colour, ground, 2
        )
        turned = end
    if chance(style, 0.4):
        hole = radius * between(style, 0.4, 0.7)
        pen.ellipse((x - hole, y - hole, x + hole, y + hole), ground)
    pen.text((20, 10), desk.words.title(content, 3), ink, desk.font(22))
    _legend(desk, pen, (20, 50, 540, 400), colours[: len(shares)], ink, ground)
    return picture


def scatter_chart(desk: Desk) -> Image.Image:
    """Clouds of dots over axes."""
    style, content = desk.style, desk.content
    picture, pen, box, ink, ground = _axes(desk)
    colours = [vivid(style) for _ in range(whole(style, 1, 3))]
    radius = between(style, 2, 5)
    for colour in colours:
        centre = content.uniform(0.2, 0.8, 2)
        spread = content.normal(0, 0.12, (2, 2))
        for offset in content.normal(0, 1, (whole(content, 20, 120), 2)) @ spread:
            u, v = np.clip(centre + offset, 0.01, 0.99)
            x, y = box[0] + u * (box[2] - box[0]), box[3] - v * (box[3] - box[1])
            pen.ellipse((x - radius, y - radius, x + radius, y + radius), colour)
    _legend(desk, pen, box, colours, ink, ground)
    return picture


def street_map(desk: Desk) -> Image.Image:
    """Blocks, roads, water and names, as map services draw them."""
    style, content = desk.style, desk.content
    ground = mix(vivid(style), (245, 242, 235), between(style, 0.8, 1.0))
    picture, pen = sheet((512, 512), ground)
    green, water = (
        mix((190, 225, 170), vivid(style), 0.15),
        mix((165, 205, 235), vivid(style), 0.15),
    )
    road = mix((255, 255, 255), vivid(style), between(style, 0, 0.4))
    for colour, count in ((green, whole(content, 2, 6)), (water, whole(content, 1, 2))):
        for _ in range(count):
            pen.polygon(_blob(content, between(content, 30, 160)), colour)
    turn, grid = between(content, 0, np.pi / 2), between(content, 28, 70)
    for axis in (turn, turn + np.pi / 2):
        along, across = (
            np.array([np.cos(axis), np.sin(axis)]),
            np.array([-np.sin(axis), np.cos(axis)]),
        )
        for step in np.arange(-400, 400, grid):
            middle = np.array([256, 256]) + across * (step + content.normal(0, grid / 6))
            reach = content.uniform(100, 500, 2)
            ends = np.stack([middle - along * reach[0], middle + along * reach[1]]).ravel()
            pen.line([float(v) for v in ends], road, whole(content, 2, 7))
    for _ in range(whole(content, 1, 3)):
        path = np.cumsum(content.normal(0, 60, (8, 2)), axis=0) + content.uniform(0, 512, 2)
        pen.line(
            [float(v) for v in path.ravel()],
            mix((250, 200, 90), vivid(style), 0.2),
            whole(style, 6, 12),
            "curve",
        )
    face = desk.font(between(style, 10, 15))
    for _ in range(whole(content, 6, 16)):
        spot = float(content.uniform(0, 440)), float(content.uniform(0, 490))
        pen.text(spot, desk.words.title(content, whole(content, 1, 2)), (70, 70, 80), face)
    return picture


def plotted_bars(desk: Desk) -> Image.Image:
    """Held out: Matplotlib's bars with error bars and a grid."""
    content, words = desk.content, desk.words

    def plot(axes: Axes) -> None:
        names = [words.word(content) + str(place) for place in range(whole(content, 4, 10))]
        heights = content.uniform(5, 100, len(names))
        errors = content.uniform(1, 9, len(names))
        axes.bar(names, heights, yerr=errors, color=f"C{whole(desk.style, 0, 9)}")
        axes.tick_params(axis="x", rotation=45)
        axes.grid(axis="y")
        axes.set_title(words.title(content, 3))

    return _plotted(plot)


def plotted_lines(desk: Desk) -> Image.Image:
    """Held out: Matplotlib's curves with markers and a legend."""
    content, words = desk.content, desk.words

    def plot(axes: Axes) -> None:
        for _ in range(whole(content, 1, 4)):
            x = np.arange(whole(content, 6, 40))
            y = np.cumsum(content.normal(0, 1, len(x)))
            axes.plot(x, y, marker=".", label=words.word(content))
        axes.legend()
        axes.set_xlabel(words.title(content, 2))
        axes.set_title(words.title(content, 3))

    return _plotted(plot)


def contour_map(desk: Desk) -> Image.Image:
    """Held out: a relief map with contour lines, a river and names."""
    content = desk.content
    relief = np.zeros((64, 64))
    u, v = np.mgrid[0:64, 0:64]
    for _ in range(whole(content, 5, 12)):
        a, b, spread = content.uniform(0, 64), content.uniform(0, 64), content.uniform(5, 18)
        relief += content.uniform(0.3, 1.0) * np.exp(-((u - a) ** 2 + (v - b) ** 2) / spread**2)

    def plot(axes: Axes) -> None:
        axes.contourf(relief, 10, cmap=["terrain", "summer", "YlGn"][whole(desk.style, 0, 2)])
        axes.contour(relief, 20, colors="saddlebrown", linewidths=0.5)
        path = np.cumsum(content.normal(0, 4, (20, 2)), axis=0) + 32
        axes.plot(np.clip(path[:, 0], 0, 63), np.clip(path[:, 1], 0, 63), color="royalblue")
        for _ in range(6):
            x, y = map(float, content.uniform(4, 52, 2))
            axes.text(x, y, desk.words.title(content, 1), fontsize=8)
        axes.set_axis_off()

    return _plotted(plot)


def _plotted(plot: Any) -> Image.Image:
    """What ``plot`` draws on Matplotlib's axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 4.2), dpi=96, layout="tight")
    plot(figure.add_subplot())
    file = io.BytesIO()
    FigureCanvasAgg(figure)
    figure.savefig(file, format="png")
    return Image.open(file).convert("RGB")


def _axes(desk: Desk) -> tuple[Image.Image, ImageDraw.ImageDraw, Box, Colour, Colour]:
    """An empty chart: picture, pen, the box inside the axes, ink and ground."""
    style = desk.style
    ground, ink = ground_and_ink(style, 0.15)
    picture, pen = sheet((560, whole(style, 340, 460)), ground)
    box = (
        between(style, 40, 70),
        between(style, 30, 60),
        560 - between(style, 15, 90),
        picture.height - 40,
    )
    face, title = desk.fonts_at(11, between(style, 16, 24))
    lines = whole(style, 0, 8)
    for place in range(lines):
        y = box[1] + place * (box[3] - box[1]) / lines
        pen.line((box[0], y, box[2], y), mix(ground, ink, 0.2))
        pen.text((6, y - 6), desk.words.number(desk.content, 3), ink, face)
    pen.line((box[0], box[1], box[0], box[3], box[2], box[3]), ink, whole(style, 1, 2))
    pen.text((box[0], 6), desk.words.title(desk.content, whole(desk.content, 2, 4)), ink, title)
    return picture, pen, box, ink, ground


def _legend(
    desk: Desk,
    pen: ImageDraw.ImageDraw,
    box: Box,
    colours: list[Colour],
    ink: Colour,
    ground: Colour,
) -> None:
    """A box that names the series, in a corner that the template chooses."""
    x = box[0] + 10 if chance(desk.style, 0.5) else box[2] - 90
    pen.rectangle(
        (x, box[1], x + 80, box[1] + 16 * len(colours) + 4), ground, mix(ground, ink, 0.4)
    )
    for row, colour in enumerate(colours):
        y = box[1] + 4 + 16 * row
        pen.rectangle((x + 4, y, x + 16, y + 10), colour)
        pen.text((x + 20, y - 2), desk.words.word(desk.content)[:8], ink, desk.font(11))


def _blob(rng: np.random.Generator, radius: float) -> list[tuple[float, float]]:
    """The outline of a patch of land or water."""
    centre = rng.uniform(0, 512, 2)
    angles = np.linspace(0, 2 * np.pi, 14, endpoint=False)
    reach = radius * rng.uniform(0.5, 1.3, 14)
    return [
        (float(centre[0] + r * np.cos(a)), float(centre[1] + r * np.sin(a)))
        for a, r in zip(angles, reach, strict=True)
    ]

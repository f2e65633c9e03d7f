"""Where pictures of results begin: a figure, and styles that are told apart without colour too."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coverlock_sdk.errors import needs

INK, FAINT = "#010203", "#040506"
"""What figures are drawn with, to be replaced by the colours of a theme."""

# Okabe and Ito's palette, which readers with any colour vision can tell apart. Its black is ours.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 3)))


@dataclass(frozen=True)
class Theme:
    """The colours of text and of faint lines; the ground is left to the page."""

    ink: str
    faint: str


LIGHT = Theme("#1b1f24", "#d9dee4")
DARK = Theme("#e6edf3", "#3a424d")
INHERITED = Theme("currentColor", "color-mix(in srgb, currentColor 18%, transparent)")
"""Inside a page: the colour of the text around."""


def new_figure(width: float, height: float) -> Any:
    """An empty matplotlib figure of so many inches, which needs no display."""
    with needs("a picture of results", "matplotlib", "bench"):
        from matplotlib import rcParams
        from matplotlib.figure import Figure
    rcParams.update(
        {
            "svg.fonttype": "none",  # text stays text: smaller, and read by screen readers
            "svg.hashsalt": "coverlock",
            "axes.facecolor": "none",
            "figure.facecolor": "none",
            "legend.labelcolor": INK,
            "text.color": INK,
            "axes.edgecolor": INK,
            "axes.labelcolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
        }
    )
    return Figure(figsize=(width, height), layout="constrained")


def plain_axes(axes: Any) -> None:
    """No box around a panel, and faint lines to read values by."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)


def svg(figure: Any, theme: Theme = INHERITED) -> str:
    """A figure as an SVG element."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    text = file.getvalue()
    themed = text.replace(INK, theme.ink).replace(FAINT, theme.faint)
    return themed[themed.index("<svg") :]


def save(figure: Any, file: Path) -> None:
    """Write a figure to ``file``, whose suffix says the format.

    An SVG file gets a second one beside it for dark pages, NAME-dark.svg.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".svg":
        file.write_text(svg(figure, LIGHT))
        file.with_name(f"{file.stem}-dark.svg").write_text(svg(figure, DARK))
        return
    figure.savefig(file, dpi=150, facecolor="white")

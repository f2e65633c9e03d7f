"""Where pictures of results begin: a figure, and styles that are told apart without colour too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coverlock_sdk.errors import needs

# Okabe and Ito's palette, which readers with any colour vision can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 3)))


def new_figure(width: float, height: float) -> Any:
    """An empty matplotlib figure of so many inches, which needs no display."""
    with needs("a picture of results", "matplotlib", "bench"):
        from matplotlib import rcParams
        from matplotlib.figure import Figure
    rcParams.update({"svg.fonttype": "path", "svg.hashsalt": "coverlock"})
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, file: Path) -> None:
    """Write a figure to ``file``, whose suffix says the format."""
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=150)

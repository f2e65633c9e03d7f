"""How far a hash tells pictures of one kind apart, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coverlock_bench.drawing import COLOURS, INK, MARKERS, new_figure, plain_axes, save
from coverlock_bench.hashes.kind_report import LIMITS


def draw_kinds(figures: dict[str, Any], file: Path) -> None:
    """Mean agreement between different pictures of a kind, a row for each kind and a mark a hash.

    0.5 is that of unrelated pictures; at 1 a mark can be moved freely within the kind. The short
    lines are the limits that a hash is held to.
    """
    hashes = figures["kinds"]
    first = next(iter(hashes.values()))
    kinds = sorted(first, key=lambda kind: first[kind]["mean"])
    figure = new_figure(7.2, 0.9 + 0.24 * len(kinds))
    axes = figure.subplots()
    for number, (name, by_kind) in enumerate(hashes.items()):
        axes.plot(
            [by_kind[kind]["mean"] for kind in kinds],
            range(len(kinds)),
            linestyle="none",
            marker=MARKERS[number],
            color=COLOURS[number],
            mfc=COLOURS[number] if number == 0 else "none",
            label=name,
        )
    limits = [LIMITS[bool(first[kind]["one_template"])] for kind in kinds]
    axes.plot(limits, range(len(kinds)), linestyle="none", marker="|", color=INK, label="limit")
    axes.set_yticks(range(len(kinds)), kinds, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0.48, 1.01)
    axes.set_xlabel("mean agreement of two different pictures of the kind")
    axes.legend(fontsize=8, frameon=False, loc="upper right")
    plain_axes(axes)
    save(figure, file)

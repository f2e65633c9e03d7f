"""What floors on agreement cost and stop, as a picture."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from coverlock_bench.drawing import COLOURS, DASHES, MARKERS, new_figure, plain_axes, save
from coverlock_sdk.locking.coverlock import DEFAULT_RULE

KEYED = ", key"
"""How the names of watermarks and searches end where there is a key."""

LABELLED = (0.84, 0.85, 0.88, 0.90, 0.92, 0.94)


def draw_floors(figures: dict[str, Any], file: Path) -> None:
    """White-box forgeries over genuine pictures accepted, a point for each floor."""
    rows = figures[DEFAULT_RULE]
    figure = new_figure(5.6, 3.4)
    axes = figure.subplots()
    for number, search in enumerate(next(iter(rows.values()))["collisions"]):
        found = [row["collisions"][search] for row in rows.values()]
        forged = [100 * each["accepted"] / each["targets"] for each in found]
        genuine = [100 * _genuine(row, keyed=search.endswith(KEYED)) for row in rows.values()]
        axes.plot(
            genuine,
            forged,
            marker=MARKERS[number],
            markersize=4,
            linestyle=DASHES[number],
            color=COLOURS[number],
            label=search,
        )
        for floor, x, y in zip(rows, genuine, forged, strict=True):
            if float(floor) in LABELLED:
                axes.annotate(
                    floor, (x, y), (-4, 4), textcoords="offset points", ha="right", fontsize=7
                )
    axes.set_xlabel("genuine pictures accepted under six distortions, %")
    axes.set_ylabel("white-box forgeries accepted, %")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    plain_axes(axes)
    save(figure, file)


def _genuine(row: dict[str, Any], keyed: bool) -> float:
    """The share of genuine pictures, over watermarks without a key or with one."""
    return fmean(share for name, share in row["tpr"].items() if name.endswith(KEYED) == keyed)

"""The series of backbones in the paper's figure 4c: what each hash trades for stability."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coverlock_bench.drawing import COLOURS, MARKERS, new_figure, plain_axes, save


def draw_backbones(figures: dict[str, Any], file: Path) -> None:
    """Pairs of photos that pass for one another against bits that survive, a mark a backbone.

    The lower right corner is best: such pairs are GT@1's success where residuals transfer and
    decoders never err, and bits that survive are what genuine pictures are accepted by.
    """
    figure = new_figure(8.6, 3.4)
    axes = figure.subplots()
    for number, (name, row) in enumerate(figures.items()):
        axes.plot(
            100 * (1 - row["error"]),
            100 * row["pairs_accepted"],
            linestyle="none",
            marker=MARKERS[number],
            color=COLOURS[number],
            mfc=COLOURS[number] if number == 0 else "none",
            label=f"{name}, {row['parameters'] / 1e6:.1f} M weights",
        )
    axes.set_ylim(bottom=0)
    axes.set_xlabel("bits of the code that survive, mean of six distortions (%)")
    axes.set_ylabel("pairs of photos that pass (%)")
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.02, 0.5))
    plain_axes(axes)
    save(figure, file)

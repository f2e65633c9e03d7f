"""The hash report as one picture, to be told apart without colour too: shapes and dashes differ."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.drawing import COLOURS, DASHES, MARKERS, new_figure, save
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.locking.coverlock import DEFAULT_FPR
from coverlock_sdk.locking.lock import MOST_BITS
from coverlock_sdk.locking.statistics import binomial_tail, hard_threshold

SUMMARY = "mean of six"

Lines = list[tuple[Any, dict[str, Any]]]
"""The line that stands for a hash in the legend, and its figures."""


def draw_hashes(figures: dict[str, Any], file: Path) -> None:
    """Bit error by distortion, and how far different and similar pictures agree."""
    figure = new_figure(11, 6.4)
    from matplotlib.lines import Line2D

    styles = cycle(zip(COLOURS, MARKERS, DASHES, strict=True))
    lines = [
        (Line2D([], [], color=colour, marker=marker, linestyle=dashes, mfc="none", label=name), row)
        for (name, row), (colour, marker, dashes) in zip(
            figures["hashes"].items(), styles, strict=False
        )
    ]
    coins = Line2D([], [], color="silver", linewidth=4, label="fair coins")
    panels = figure.subplot_mosaic([["errors", "different"], ["errors", "similar"]])
    _draw_errors(panels["errors"], lines)
    for kind in ("different", "similar"):
        _draw_agreement(panels[kind], lines, coins, kind)
    legend = [*(line for line, _ in lines), coins]
    figure.legend(handles=legend, loc="outside lower center", ncols=min(len(legend), 6))
    save(figure, file)


def _draw_errors(axes: Any, lines: Lines) -> None:
    """A row per distortion and a mark per hash; linear up to 1 %, so that zero has a place."""
    for line, row in lines:
        errors = {name: row["bit_error"][name] for name in EVALUATION}
        errors[SUMMARY] = row["bit_error_mean_of_six"]
        errors |= row["bit_error"]
        percent = [100 * error for error in errors.values()]
        style = {"color": line.get_color(), "marker": line.get_marker()}
        axes.plot(percent, list(errors), **style, linestyle="none", mfc="none", mew=1.6)
    axes.axhspan(len(EVALUATION) - 0.5, len(EVALUATION) + 0.5, color="whitesmoke", zorder=0)
    axes.axvline(50, color="black", linewidth=0.8, linestyle=":")
    axes.set_xscale("symlog", linthresh=1)
    ticks = [0, 0.5, 1, 2, 5, 10, 20, 50]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlim(-0.05, 75)
    axes.invert_yaxis()
    axes.grid(alpha=0.3)
    axes.set_xlabel("wrong bits in % (50: no relation to the original)")
    axes.set_title("Bit error: the paper's six distortions, and harder ones")


def _draw_agreement(axes: Any, lines: Lines, coins: Any, kind: str) -> None:
    """The share of pairs that agree in at least so many bits, which is what a threshold meets."""
    counts = np.arange(MOST_BITS + 1)
    threshold = hard_threshold(MOST_BITS, DEFAULT_FPR)
    axes.plot(counts, binomial_tail(MOST_BITS), color=coins.get_color(), linewidth=4)
    most, pairs = threshold, 1
    for line, row in lines:
        pairs = row[kind]["pairs"]
        share = np.cumsum(row[kind]["match_histogram"][::-1])[::-1] / pairs
        seen = share > 0
        style = {"color": line.get_color(), "linestyle": line.get_linestyle()}
        axes.plot(counts[seen], share[seen], **style)
        most = max(most, int(counts[seen].max()))
    axes.axvline(threshold, color="black", linewidth=0.8)
    axes.annotate(f" accepted: {threshold} or more", (threshold, 1.0), fontsize=9, va="center")
    axes.set_yscale("log")
    axes.set_xlim(100, min(most + 35, MOST_BITS))
    axes.set_ylim(0.5 / pairs, 2)
    axes.grid(alpha=0.3)
    axes.set_xlabel(f"matching bits of {MOST_BITS}, at least")
    axes.set_ylabel("share of pairs")
    axes.set_title(f"Agreement: {pairs:,} pairs of {kind} pictures")

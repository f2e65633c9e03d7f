"""Match counts of unmarked pictures against the binomial they should follow (appendix F)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.drawing import new_figure, save
from coverlock_sdk.locking.statistics import binomial_tail


def draw_calibration(figures: dict[str, Any], file: Path) -> None:
    """A row per watermark: bars are what was counted, dots Binomial(L, 1/2)."""
    counted = {
        watermark: {arm: row for arm, row in arms.items() if "match_histogram" in row}
        for watermark, arms in figures.items()
    }
    rows, columns = len(counted), max(map(len, counted.values()))
    figure = new_figure(3.6 * columns, 2.6 * rows)
    panels = figure.subplots(rows, columns, squeeze=False, sharex="row", sharey="row")
    for line, (watermark, arms) in zip(panels, counted.items(), strict=True):
        for axes, (arm, row) in zip(line, arms.items(), strict=False):
            histogram = np.array(row["match_histogram"])
            tail = binomial_tail(len(histogram) - 1)
            expected = tail - np.append(tail[1:], 0)
            seen = np.arange(len(histogram))
            axes.bar(seen, histogram / histogram.sum(), width=0.9, color="#56B4E9", label="counted")
            axes.plot(seen, expected, ".", color="#000000", markersize=4, label="binomial")
            ratio = row["variance_ratio"]
            interval = f"[{ratio['low']:.2f}, {ratio['high']:.2f}]"
            title = f"{watermark}, {arm}: variance x {ratio['mean']:.2f} {interval}"
            axes.set_title(title, fontsize=8)
            axes.tick_params(labelsize=7)
        for axes in line[len(arms) :]:
            axes.set_visible(False)
        line[0].set_ylabel("share of pictures", fontsize=8)
    for axes in panels[-1]:
        axes.set_xlabel("matching bits", fontsize=8)
    panels[0][0].legend(fontsize=7)
    save(figure, file)

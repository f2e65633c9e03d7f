"""How much faster than PyTorch each runtime verifies, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coverlock_bench.drawing import COLOURS, INK, new_figure, plain_axes, save

SHADES = (0.35, 0.65, 1.0)
"""Of one colour, from the smallest batch to the largest."""


def draw_latency(figures: dict[str, Any], file: Path) -> None:
    """End to end, relative to PyTorch in fp32 on the same machine: a bar a batch size."""
    subjects = figures["subjects"]
    figure = new_figure(5.4 * len(subjects), 3.6)
    panels = figure.subplots(1, len(subjects), squeeze=False)[0]
    for axes, (name, subject) in zip(panels, subjects.items(), strict=True):
        _panel(axes, [row for row in subject["rows"] if row["stage"] == "end to end"])
        axes.set_title(name, fontsize=10)
    save(figure, file)


def _panel(axes: Any, rows: list[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(f"{row['runtime']} {row['precision']}" for row in rows))
    batches = sorted({row["batch"] for row in rows})
    height = 0.8 / len(batches)
    for number, batch in enumerate(batches):
        ratios = [
            next(
                (
                    row["ratio_to_torch"]
                    for row in rows
                    if row["batch"] == batch and f"{row['runtime']} {row['precision']}" == name
                ),
                {"median": 0.0, "min": 0.0, "max": 0.0},
            )
            for name in names
        ]
        middle = [ratio["median"] for ratio in ratios]
        axes.barh(
            [place + (number - (len(batches) - 1) / 2) * height for place in range(len(names))],
            middle,
            height=height,
            xerr=[
                [ratio["median"] - ratio["min"] for ratio in ratios],
                [ratio["max"] - ratio["median"] for ratio in ratios],
            ],
            color=COLOURS[0],
            alpha=SHADES[number % len(SHADES)],
            error_kw={"ecolor": INK, "elinewidth": 1, "capsize": 2},
            label=f"batch of {batch}",
        )
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.axvline(1, color=INK, linewidth=0.8)
    axes.set_xlabel("times as fast as PyTorch fp32, JPEG file to verdict")
    axes.legend(fontsize=8, frameon=False)
    plain_axes(axes)

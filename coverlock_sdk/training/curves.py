"""The curves of a training run as one picture: the paper's training-dynamics figure."""

from __future__ import annotations

from pathlib import Path

from coverlock_sdk.errors import MissingModelError
from coverlock_sdk.training.runs import History


def draw_curves(history: History, file: Path) -> None:
    """Write a panel per recorded quantity: the loss terms by step, then each validation figure."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingModelError(
            "curves are drawn with matplotlib: pip install 'coverlock-sdk[bench]'"
        ) from error
    panels = [
        (name, [record["step"] for record in records], [record[name] for record in records])
        for records in (history.steps, history.validation)
        if records
        for name in records[0]
        if name != "step"
    ]
    columns = 4
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.2 * rows), layout="constrained")
    for place, (name, steps, values) in enumerate(panels, start=1):
        axes = figure.add_subplot(rows, columns, place)
        axes.plot(steps, values, linewidth=0.8)
        axes.set_title(name.replace("_", " "), fontsize=9)
        axes.tick_params(labelsize=7)
    figure.savefig(file, dpi=120)

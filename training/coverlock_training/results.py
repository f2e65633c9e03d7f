"""What a finished training leaves behind: weights, the card that tells of them, and curves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coverlock_sdk.errors import needs
from coverlock_sdk.models.checkpoints import write_weights
from coverlock_training.loop import History


def write_results(
    weights: Path,
    state: Mapping[str, Tensor],
    card: Mapping[str, Any],
    about: Mapping[str, str] | None = None,
    histories: Iterable[Path] = (),
) -> None:
    """Write ``state`` to the file ``weights``, and its card beside it.

    ``about`` goes into the weight file itself. Each of ``histories``, which runs wrote, is drawn.
    """
    write_weights(weights, state, about)
    versions = {"torch": torch.__version__, "numpy": np.__version__}
    text = json.dumps({**card, "versions": versions}, indent=2)
    weights.with_suffix(".json").write_text(text + "\n")
    for history in histories:
        draw_curves(History.read(history), history.with_name("curves.png"))


def draw_curves(history: History, file: Path) -> None:
    """Write a panel per recorded quantity: the loss terms by step, then each validation figure."""
    with needs("a picture of the curves", "matplotlib", "bench"):
        from matplotlib.figure import Figure
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

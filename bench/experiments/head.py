"""How the head of the paper's hash learns: every loss and the bit error over the steps (figure 5).

``coverlock train hash PHOTOS --run RUN`` leaves its curves in RUN. This reads them, averages each
loss between two validations, and names the backbone and the head that they belong to.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from statistics import fmean
from typing import Any

import click

from coverlock_bench.measurement import FOLDER, Measured, measurement
from coverlock_bench.tables import Table

LOSSES = (
    "contrastive",
    "stability",
    "balance",
    "variance",
    "independence",
    "decorrelation",
    "confidence",
)

HEAD = Table(
    "Every loss of a training, and the bit error on photos that it has not seen",
    lambda figures: figures["curves"],
    (
        ("steps", "{step:,}"),
        *((loss, f"{{{loss}:.4f}}") for loss in LOSSES),
        ("bit error, six distortions", "{error:%2} %"),
        ("agreement of different pictures", "{pairs_mean:.3f} ± {pairs_deviation:.3f}"),
    ),
)


def curves(history: dict[str, list[dict[str, float]]]) -> list[dict[str, float]]:
    """One row for each validation: its figures, and the means of the losses since the last."""
    rows, last = [], 0.0
    for validation in history["validation"]:
        since = [point for point in history["steps"] if last <= point["step"] < validation["step"]]
        losses = {loss: fmean(point[loss] for point in since) for loss in LOSSES}
        rows.append({**validation, **losses})
        last = validation["step"]
    return rows


@measurement("experiments head", click.argument("run", type=FOLDER))
def head(run: Path) -> Measured:
    """The curves of RUN, a finished 'coverlock train hash'."""
    card: dict[str, Any] = json.loads((run / "hash.json").read_text())
    history = json.loads((run / "head" / "history.json").read_text())
    config = {name: card[name] for name in ("backbone", "recipe", "photos", "held_out_photos")}
    config["head"] = hashlib.sha256((run / "hash.safetensors").read_bytes()).hexdigest()
    figures = {"curves": curves(history), "held_out": card["held_out"]}
    return Measured(config, figures, HEAD.markdown(figures))

"""Plots of the docs, drawn from result files: one for light and one for dark pages.

Each file says in its description which figures it was drawn from, so that stale ones are found
without drawing them again (fonts and versions of matplotlib change the bytes of a drawing).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coverlock_bench.auditing.figures import draw_tradeoff, draw_transferability
from coverlock_bench.deployment.latency_picture import draw_latency
from coverlock_bench.hashes.kind_picture import draw_kinds
from experiments.residual_pictures import draw_averaged_residuals, draw_lifted_residuals

Draw = Callable[[dict[str, Any], Path], None]

PLOTS: dict[str, tuple[str, Draw]] = {
    "transferability.svg": ("security.json", draw_transferability),
    "tradeoff.svg": ("security.json", draw_tradeoff),
    "kinds.svg": ("hash.json", draw_kinds),
    "averaged-residuals.svg": ("residuals.json", draw_averaged_residuals),
    "lifted-residuals.svg": ("residuals.json", draw_lifted_residuals),
    "latency.svg": ("latency.json", draw_latency),
}
"""File name, the result file it is drawn from, and what draws it."""


def stale(out: Path, results: Path) -> list[str]:
    """Plots in ``out`` that were not drawn from what is in ``results``, or not at all."""
    return [
        name
        for name, (result, _) in PLOTS.items()
        if (results / result).exists()
        for file in _both(out / name)
        if not file.exists() or _origin(results / result) not in file.read_text()
    ]


def draw(name: str, out: Path, results: Path) -> None:
    """Draw one plot."""
    result, drawer = PLOTS[name]
    drawer(json.loads((results / result).read_text())["figures"], out / name)
    for file in _both(out / name):
        start, _, rest = file.read_text().partition(">")
        file.write_text(f"{start}>\n<desc>{_origin(results / result)}</desc>{rest}")


def _both(file: Path) -> tuple[Path, Path]:
    return file, file.with_name(f"{file.stem}-dark.svg")


def _origin(result: Path) -> str:
    figures = json.loads(result.read_text())["figures"]
    digest = hashlib.sha256(json.dumps(figures, sort_keys=True).encode()).hexdigest()
    return f"drawn from {result.name}, figures {digest[:16]}"

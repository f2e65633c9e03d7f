"""The paper's figures 2a and 4a from a result file of residuals."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

from PIL import Image

from coverlock_bench.auditing.security_tables import attack_name
from coverlock_bench.drawing import new_figure, save

Tile = dict[str, Any]
INCHES = 1.25


def draw_averaged_residuals(figures: dict[str, Any], file: Path) -> None:
    """Mean residuals of two disjoint sets of five covers, one column a watermark."""
    columns = [row["averaged"] for row in figures.values()]
    titles = [f"{name}\ncorrelation {row['correlation']:.2f}" for name, row in figures.items()]
    rows = [list(tiles) for tiles in zip(*columns, strict=True)]
    _draw(rows, titles, [f"covers {letter}" for letter in "AB"], file)


def draw_lifted_residuals(figures: dict[str, Any], file: Path) -> None:
    """What each attack lifts from pictures that carry one message, one row a watermark."""
    attacks = list(next(iter(figures.values()))["lifted"])
    rows = [[row["lifted"][attack] for attack in attacks] for row in figures.values()]
    _draw(rows, [attack_name(attack) for attack in attacks], list(figures), file)


def _draw(rows: list[list[Tile]], titles: list[str], labels: list[str], file: Path) -> None:
    figure = new_figure(0.4 + INCHES * len(titles), 0.5 + INCHES * len(rows))
    panels = figure.subplots(len(rows), len(titles), squeeze=False)
    for line, tiles, label in zip(panels, rows, labels, strict=True):
        for axes, tile in zip(line, tiles, strict=True):
            axes.set_xticks([])
            axes.set_yticks([])
            _show(axes, tile)
        line[0].set_ylabel(label, fontsize=8)
    for axes, title in zip(panels[0], titles, strict=True):
        axes.set_title(title, fontsize=8)
    save(figure, file)


def _show(axes: Any, tile: Tile) -> None:
    if "not_measured" in tile:
        axes.text(0.5, 0.5, "not measured", ha="center", va="center", fontsize=7)
        return
    picture = Image.open(io.BytesIO(base64.b64decode(tile["png"]))).convert("RGB")
    axes.imshow(picture, interpolation="none")
    axes.set_xlabel(f"\N{MULTIPLICATION SIGN} {tile['gain']:.0f}", fontsize=7, labelpad=1)

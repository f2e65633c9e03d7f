"""How well classifiers tell forgeries, by backbone (appendix G of the paper)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coverlock_bench.settings import named_watermark
from coverlock_plugins.convnext.classifiers import BACKBONES
from coverlock_plugins.convnext.training import FilterRecipe, train_filter

PAPER = {"mbrs": {"features": 0.7243, "resnet": 0.9772, "convnext": 0.9971}}
"""On COCO, with DINOv2-G, ResNet-50 and ConvNeXt-Tiny as backbones."""


def filters(
    watermarks: Sequence[str], photos: Path, runs: Path, recipe: FilterRecipe
) -> dict[str, dict[str, Any]]:
    """Train every backbone for every watermark (or load what was trained), and keep its card."""
    figures: dict[str, dict[str, Any]] = {}
    for name in watermarks:
        watermark, run = named_watermark(name), runs / name
        figures[name] = {}
        for backbone in BACKBONES:
            written = train_filter(watermark, photos, run, backbone, recipe=recipe)
            card = json.loads(written.with_suffix(".json").read_text())
            figures[name][backbone] = {**card, "paper": PAPER.get(name, {}).get(backbone)}
    return figures

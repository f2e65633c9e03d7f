"""How far hashes tell pictures of one kind apart, on drawn pictures that no training has seen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.trial import distort
from coverlock_sdk import ImageHash
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.plugin_calls import picture_logits
from coverlock_sdk.progress import progress
from coverlock_sdk.training.hashes.figures import Codes
from coverlock_sdk.training.hashes.kind_figures import kind_figures
from coverlock_sdk.training.kinds.catalogue import KINDS
from coverlock_sdk.training.kinds.collection import draw_sets

DRAWN = Path("runs/kinds")
DISTORTED = 8
"""Pictures of each kind that are distorted, to see how stable their codes are."""

KIND_BARS = {False: (0.60, 0.01), True: (0.66, 0.05)}
"""The highest mean agreement and share of accepted pairs, without and with one template."""


def kind_report(
    hashes: Mapping[str, ImageHash], photos: list[Path], count: int, seed: int
) -> dict[str, dict[str, Any]]:
    """For each hash and kind: agreement of different pictures, and errors under distortion.

    ``photos`` are what drawn pictures show where they show photos; no training may have seen them.
    """
    sets = draw_sets(DRAWN / str(count), "evaluation", count, photos)
    report: dict[str, dict[str, Any]] = {}
    for name, image_hash in hashes.items():
        codes = {
            kind: [codes_of_files(image_hash, members) for members in groups]
            for kind, groups in progress(list(sets.items()), f"{name}, kinds")
        }
        figures = kind_figures(codes)
        report[name] = {
            kind: {
                **figures[kind],
                "one_template": KINDS[kind].one_template,
                "bit_error": _bit_error(image_hash, groups[0][:DISTORTED], seed),
            }
            for kind, groups in sets.items()
        }
    return report


def codes_of_files(image_hash: ImageHash, files: list[Path]) -> Codes:
    """The codes (N, 256) of pictures in files."""
    return picture_logits(image_hash, files) > 0


def _bit_error(image_hash: ImageHash, files: list[Path], seed: int) -> dict[str, float]:
    """The share of bits that each of the six distortions flips."""
    flipped = []
    for index, file in enumerate(files):
        clean, rng = read(file).to_bytes(), np.random.default_rng([seed, index])
        views = [clean, *distort(clean, EVALUATION, rng).values()]
        codes = picture_logits(image_hash, views) > 0
        flipped.append((codes[1:] != codes[:1]).mean(axis=1))
    return dict(zip(EVALUATION, map(float, np.mean(flipped, axis=0)), strict=True))

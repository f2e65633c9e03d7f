"""How far hashes tell pictures of one kind apart, on drawn pictures that no training has seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.hashes.codes import View, agreement, codes_of, every_pair, views_of
from coverlock_bench.photos import load_squares
from coverlock_sdk import ImageHash
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.progress import progress
from coverlock_training.kinds.catalogue import KINDS
from coverlock_training.kinds.collection import draw_sets

DRAWN = Path("runs/kinds")
SIDE = 512
DISTORTED = 8
"""Pictures of each kind that are distorted, to see how stable their codes are."""


def kind_report(
    hashes: Mapping[str, ImageHash], photos: list[Path], count: int, seed: int
) -> dict[str, dict[str, Any]]:
    """For each hash and kind: agreement of different pictures, and errors under distortion.

    ``photos`` are what drawn pictures show where they show photos; no training may have seen them.
    """
    sets = draw_sets(DRAWN / str(count), count, photos)
    return {
        name: {
            kind: {
                **_together(image_hash, groups),
                "one_template": KINDS[kind].one_template,
                "bit_error": _bit_error(image_hash, groups[0][:DISTORTED], seed),
            }
            for kind, groups in progress(list(sets.items()), f"{name}, kinds")
        }
        for name, image_hash in hashes.items()
    }


def _together(image_hash: ImageHash, groups: Sequence[list[Path]]) -> dict[str, Any]:
    """How far the pictures of each group agree with one another; groups are of one size."""
    found = []
    for files in groups:
        codes = codes_of(image_hash, [View(square) for square in load_squares(files, SIDE)])
        found.append(agreement(codes, every_pair(len(codes))))
    return {
        "pairs": sum(row["pairs"] for row in found),
        "mean": float(np.mean([row["mean"] for row in found])),
        "accepted": {
            bits: float(np.mean([row["accepted"][bits] for row in found]))
            for bits in found[0]["accepted"]
        },
    }


def _bit_error(image_hash: ImageHash, files: list[Path], seed: int) -> dict[str, float]:
    """The share of bits that each of the six distortions flips."""
    flipped = []
    for index, square in enumerate(load_squares(files, SIDE)):
        codes = codes_of(image_hash, views_of(square, [seed, index], EVALUATION))
        flipped.append((codes[1:] != codes[:1]).mean(axis=1))
    return dict(zip(EVALUATION, map(float, np.mean(flipped, axis=0)), strict=True))

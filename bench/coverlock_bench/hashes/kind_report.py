"""How far hashes tell pictures of one kind apart: pages of one form, screens of one app."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.hashes.codes import View, agreement, codes_of, every_pair, views_of
from coverlock_bench.photos import Picture8, groups_in, load_squares
from coverlock_sdk import ImageHash
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.progress import progress

SIDE = 512
DISTORTED = 8
"""Pictures of each kind that are distorted, to see how stable their codes are."""


def kind_report(
    hashes: Mapping[str, ImageHash], folder: Path, seed: int
) -> dict[str, dict[str, Any]]:
    """Agreement and errors of each hash on each subfolder, which holds pictures of one kind."""
    groups = groups_in(folder)
    return {
        name: {
            kind: _figures(image_hash, load_squares(files, SIDE), seed)
            for kind, files in progress(list(groups.items()), f"{name}, kinds")
        }
        for name, image_hash in hashes.items()
    }


def _figures(image_hash: ImageHash, squares: Sequence[Picture8], seed: int) -> dict[str, Any]:
    """How far different pictures agree, and the share of bits that each distortion flips."""
    codes = codes_of(image_hash, [View(square) for square in squares])
    found = agreement(codes, every_pair(len(codes)))
    flipped = []
    for index, square in enumerate(squares[:DISTORTED]):
        seen = codes_of(image_hash, views_of(square, [seed, index], EVALUATION))
        flipped.append((seen[1:] != seen[:1]).mean(axis=1))
    errors = dict(zip(EVALUATION, map(float, np.mean(flipped, axis=0)), strict=True))
    return {name: found[name] for name in ("pairs", "mean", "accepted")} | {"bit_error": errors}

"""Codes of pictures and of their distorted versions, and how well codes agree.

A hash that supports registration is given the part of the original that a picture shows, which
verification would find; others see the picture as it is. Pictures are squares, because turning
other shapes does not give a frame of the original.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from coverlock_bench.photos import Picture8
from coverlock_bench.trial import distorted
from coverlock_sdk import ImageHash
from coverlock_sdk.frames import WHOLE, Frame
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import EVALUATION, HARDER, Crop, Distortion, Rotation
from coverlock_sdk.images.picture import stacked_views
from coverlock_sdk.locking.coverlock import DEFAULT_FPR
from coverlock_sdk.locking.lock import MOST_BITS
from coverlock_sdk.locking.secret_rotations import code_map
from coverlock_sdk.locking.statistics import hard_threshold
from coverlock_sdk.plugin_calls import describe

PLACED: Mapping[str, Distortion] = {
    "crop-90-anywhere": Crop(0.9, anywhere=True),
    "crop-80-anywhere": Crop(0.8, anywhere=True),
    "turn-3": Rotation(3),
}
"""Off-centre crops and a small turn, which need registration."""

CHANGES: Mapping[str, Distortion] = {**EVALUATION, **HARDER, **PLACED}

LENGTHS = (30, 64, 100, 256)
"""Payload lengths of existing watermarks."""

Codes = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]


class FramedView(NamedTuple):
    """A picture, and the part of the original that it shows."""

    picture: Picture8
    frame: Frame = WHOLE


def views_of(
    square: Picture8, seed: Sequence[int], changes: Mapping[str, Distortion] = CHANGES
) -> list[FramedView]:
    """A square picture as it is, and under each of ``changes``."""
    seen = [FramedView(square)]
    for number, (name, change) in enumerate(changes.items()):
        picture = distorted(square, name, change, np.random.default_rng([*seed, number]))
        frame = _frame(change, square, picture, np.random.default_rng([*seed, number]))
        seen.append(FramedView(picture, frame))
    return seen


def _frame(change: Distortion, square: Picture8, seen: Picture8, rng: np.random.Generator) -> Frame:
    """The part of ``square`` that ``seen`` shows; for a crop, found by cropping coordinates."""
    side = len(seen) / len(square)
    if isinstance(change, Rotation):
        middle = ((len(square) - len(seen)) // 2 + len(seen) / 2) / len(square)
        return Frame(side, middle, middle, change.degrees)
    if isinstance(change, Crop):
        places: Any = np.moveaxis(np.indices(square.shape[:2]), 0, -1)
        kept = change(places, rng)
        y, x = (kept.mean(axis=(0, 1)) + 0.5) / len(square)
        return Frame(side, float(x), float(y))
    return WHOLE


def codes_of(image_hash: ImageHash, views: Sequence[FramedView]) -> Codes:
    """The bits (N, 256) that would lock a message to each picture, without a key.

    A shorter message uses the first ones.
    """
    pictures = stacked_views([read(view.picture) for view in views], image_hash.input_size)
    described = describe(image_hash, pictures)
    logits = np.concatenate(
        [image_hash.code(d, view.frame) for d, view in zip(described, views, strict=True)]
    )
    bits: Codes = code_map(None, "", MOST_BITS, image_hash.bands).seen(logits)[:, 0] > 0
    return bits


def every_pair(count: int) -> Counts:
    """All pairs (M, 2) of ``count`` pictures."""
    return np.stack(np.triu_indices(count, 1), axis=1)


def agreement(codes: Codes, pairs: Counts) -> dict[str, Any]:
    """How many bits the two pictures of a pair share, and how often enough to be accepted.

    Acceptance here is by the hard rule alone; the lock's floors are stricter.
    """
    matches = _matches(codes, pairs)
    return {
        "pairs": len(pairs),
        "mean": float(matches.mean() / MOST_BITS),
        "std": float(matches.std() / MOST_BITS),
        "accepted": {
            str(bits): float(
                (_matches(codes[:, :bits], pairs) >= hard_threshold(bits, DEFAULT_FPR)).mean()
            )
            for bits in LENGTHS
        },
        "match_histogram": np.bincount(matches, minlength=MOST_BITS + 1).tolist(),
    }


def _matches(codes: Codes, pairs: Counts) -> Counts:
    signs = np.where(codes, 1, -1).astype(np.float32)
    equal = (codes.shape[1] + signs @ signs.T) / 2
    return equal[pairs[:, 0], pairs[:, 1]].astype(np.int64)

"""``python -m experiments standing``: what once succeeded against the whole system stays tried.

Files that hold a marked picture and show another one, and messages put together from two others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.intervals import rate
from coverlock_bench.measurement import (
    Measured,
    images_option,
    measurement,
    number_option,
    watermark_option,
)
from coverlock_bench.photos import Picture8, find_photos, load_squares
from coverlock_bench.settings import named_watermark
from coverlock_bench.trial import mark
from coverlock_sdk import Key, wrap
from coverlock_sdk.arrays import Bits
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.conversion import read
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.progress import progress
from experiments.disguises import DISGUISES

COMBINED = "combined messages"
NAME = "standing"
SIDE = 256


def standing_attacks(
    locked: LockedWatermark, pictures: Sequence[Picture8], others: Sequence[Picture8]
) -> dict[str, Any]:
    """How often each attack on ``pictures`` is accepted by a lock with a key."""
    pairs = list(zip(pictures, others, strict=False))
    marked = [mark(locked, picture, NAME).picture for picture, _ in pairs]
    figures = {}
    for name, disguise in progress(DISGUISES.items(), "standing attacks"):
        files = [disguise(held, shown) for held, (_, shown) in zip(marked, pairs, strict=True)]
        figures[name] = rate(sum(_accepted(locked, file) for file in files), len(files))
    combined = [_takes_combined(locked, picture) for picture, _ in pairs]
    return {**figures, COMBINED: rate(sum(combined), len(combined))}


def _accepted(locked: LockedWatermark, file: bytes) -> bool:
    try:
        return bool(locked.verify(file, NAME).accepted)
    except PictureError:
        return False


def _takes_combined(locked: LockedWatermark, picture: Picture8) -> bool:
    """Whether the payload of one message, and the difference to another, give the other one."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 2, (2, locked.bits), dtype=np.uint8)
    [decoded], _ = locked.logits([mark(locked, picture, first).picture])
    forged = _carrying(locked, picture, (decoded > 0) ^ np.resize(first ^ second, decoded.shape))
    return bool(locked.verify(forged, second).accepted)


def _carrying(locked: LockedWatermark, picture: Picture8, payload: Bits) -> Picture8:
    """A picture with a payload, as anybody makes it who has the encoder."""
    networks, given = locked.binder.networks, read(picture)
    [residual] = networks.residuals(networks.views([given]), payload.astype(np.uint8)[None])
    return given.with_residual(residual).to_bytes()


@measurement(
    "experiments standing",
    watermark_option,
    images_option,
    number_option("--count", 20, "Pictures of each attack."),
)
def standing_command(watermark: str, images: Path | None, count: int) -> Measured:
    """Try every attack on files and messages that once succeeded; none should be accepted."""
    locked = wrap(named_watermark(watermark), key=Key(bytes(range(32)), id="standing"))
    squares = load_squares(find_photos(images)[: 2 * count], SIDE)
    half = len(squares) // 2
    figures = standing_attacks(locked, squares[:half], squares[half:])
    return Measured({"watermark": watermark, "pictures": half}, figures)

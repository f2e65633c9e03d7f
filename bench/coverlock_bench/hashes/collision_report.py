"""White-box collisions by hash, budget, key and space of changes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.hashes.assets import NEURAL_HASH
from coverlock_bench.photos import load_squares, to_float
from coverlock_sdk.errors import CoverLockError, needs

CROWD = 110
"""Released pictures among which the forger chooses the nearest."""

SIDE = 256

SEARCHES: dict[str, dict[str, Any]] = {
    "34 dB": {"psnr": 34.0},
    "34 dB, key": {"psnr": 34.0, "keyed": True},
}
"""Those that the bars are about."""

MORE_SEARCHES: dict[str, dict[str, Any]] = {
    "30 dB": {"psnr": 30.0},
    "30 dB, key": {"psnr": 30.0, "keyed": True},
    "38 dB": {"psnr": 38.0},
    "38 dB, key": {"psnr": 38.0, "keyed": True},
    "42 dB": {"psnr": 42.0},
    "34 dB, low frequencies": {"psnr": 34.0, "space": "low"},
    "34 dB, colour": {"psnr": 34.0, "space": "chroma"},
}
"""How success falls with the budget, and what is left of it within a part of the changes; on a
third of the pictures."""


def collision_report(
    hashes: Iterable[str], photos: list[Path], count: int, seed: int
) -> dict[str, dict[str, Any]]:
    """For each hash with gradients: how many of ``count`` photos collide, by search.

    The photos attacked and the crowd are different ones.
    """
    if len(photos) < count + 2:
        raise CoverLockError(
            f"{count} collisions need more than the {len(photos)} photos there are"
        )
    with needs("a search for collisions", "PyTorch", "torch"):
        from coverlock_bench.hashes.collisions import Collision
        from coverlock_bench.hashes.opponents import opponent
    order = np.random.default_rng(seed).permutation(len(photos))
    chosen = [photos[row] for row in order[: count + CROWD]]
    pictures = np.stack([to_float(square) for square in load_squares(chosen, SIDE)])
    targets, crowd = pictures[:count], pictures[count:]
    report: dict[str, dict[str, Any]] = {}
    for name in (*hashes, NEURAL_HASH.name):
        try:
            known = opponent(name)
        except CoverLockError:
            continue
        report[name] = {
            search: Collision(**settings).success(
                known, targets if search in SEARCHES else targets[: -(-count // 3)], crowd, seed
            )
            for search, settings in {**SEARCHES, **MORE_SEARCHES}.items()
            if known.calibration is not None or not settings.get("keyed")
        }
    return report

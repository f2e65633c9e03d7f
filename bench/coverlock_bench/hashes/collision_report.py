"""White-box collisions by hash, budget, key and space of changes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.hashes.assets import NEURAL_HASH
from coverlock_bench.ledger import Ledger, digest
from coverlock_bench.photos import load_squares, to_float
from coverlock_sdk.arrays import Images
from coverlock_sdk.errors import CoverLockError, needs

CROWD = 110
"""Released pictures among which the forger chooses the nearest."""

TARGETS = 60
"""Pictures that the bars are about."""

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
    "34 dB, low frequencies": {"psnr": 34.0, "space": "low"},
    "34 dB, colour": {"psnr": 34.0, "space": "chroma"},
}
"""How success falls with the budget, and what is left of it within a part of the changes."""

FEW = 5
"""A baseline that cannot lock is attacked on one picture of so many."""

KEPT = Path("runs/collisions.sqlite")


def collision_report(
    hashes: Iterable[str], photos: list[Path], count: int, seed: int, curve: bool = False
) -> dict[str, dict[str, Any]]:
    """For each hash with gradients: how many of ``count`` photos collide, by search.

    With a ``curve``, at other budgets and in parts of the space of changes too. The photos attacked
    and the crowd are different ones. What was found is kept, so that an
    interrupted run goes on from there.
    """
    with needs("a search for collisions", "PyTorch", "torch"):
        from coverlock_bench.hashes.collisions import Collision
        from coverlock_bench.hashes.opponents import opponent
    chosen = attacked_photos(photos, count, seed)
    targets, crowd = targets_and_crowd(chosen, count)
    few = targets[: -(-count // FEW)]
    ledger = Ledger(KEPT)
    report: dict[str, dict[str, Any]] = {}
    for name in (*hashes, NEURAL_HASH.name):
        try:
            known = opponent(name)
        except CoverLockError:
            continue
        same = digest(known.judged(few[:1]), seed, [str(photo.resolve()) for photo in chosen])
        report[name] = {}
        for search, settings in {**SEARCHES, **(MORE_SEARCHES if curve else {})}.items():
            if known.calibration is None and (settings.get("keyed") or settings.get("space")):
                continue  # a baseline that cannot lock
            enough = targets if known.calibration is not None else few
            collision = Collision(**settings)
            key = {"hash": name, "same": same, "search": repr(collision), "count": len(enough)}
            key["kept"] = "logits"  # so that other rules can judge them
            found = ledger.recall(**key)
            if found is None:
                found = collision.attempt(known, enough, crowd, seed)
                ledger.keep(found, **key)
            report[name][search] = collision.judged(known, found)
    return report


def attacked_photos(photos: list[Path], count: int, seed: int) -> list[Path]:
    """The ``count`` photos that are attacked, and after them the crowd of released ones."""
    if len(photos) < count + 2:
        raise CoverLockError(
            f"{count} collisions need more than the {len(photos)} photos there are"
        )
    order = np.random.default_rng(seed).permutation(len(photos))
    return [photos[row] for row in order[: count + CROWD]]


def targets_and_crowd(chosen: list[Path], count: int) -> tuple[Images, Images]:
    """The same as pictures (N, 3, H, W)."""
    pictures = np.stack([to_float(square) for square in load_squares(chosen, SIDE)])
    return pictures[:count], pictures[count:]

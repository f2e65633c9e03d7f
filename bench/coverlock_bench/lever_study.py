"""What each lever against a feature collision buys in forgeries, and costs in genuine pictures.

Every lever stands alone: unless the lever is the key itself, the attacker knows which bits of the
code are used. Each attacker is adapted to the lever that is attacked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.adaptive import SECRET, Scene, floats
from coverlock_bench.attacks.feature_collision import FeatureCollision
from coverlock_bench.intervals import rate
from coverlock_bench.ledger import Run, digest
from coverlock_bench.levers import KeyedViews, SeveralHashes, instability
from coverlock_bench.photos import Picture8, load_squares, to_8_bit, to_float
from coverlock_bench.verification import examine
from coverlock_bench.white_box import Dct, GuessedViews, Nano, Several, WhiteBox
from coverlock_sdk import CoverLock, Key, load_hash, load_watermark
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.distortions import EVALUATION, draw_training_distortion
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.keys import bit_selection
from coverlock_sdk.resampling import resample
from coverlock_sdk.verdict import RULES

BUDGETS = (16.0, 32.0)
"""Largest change of a value by the attacker, in grey levels."""

SPARED = 0.99
"""The share of distorted genuine pictures that a stability check must let pass."""


@dataclass(frozen=True)
class Lever:
    """A hash, the key that chooses among its bits, and what the attacker knows of both."""

    hash: ImageHash
    known: WhiteBox
    key: Key | None = None
    checked: bool = False
    """Whether a picture whose code is unstable is rejected."""


LEVERS: dict[str, Callable[[], Lever]] = {
    "none": lambda: Lever(load_hash("nano"), Nano()),
    "key that selects bits": lambda: Lever(load_hash("nano"), Nano(), key=SECRET),
    "secret windows": lambda: Lever(
        KeyedViews("nano", SECRET, views=2, least=0.6, covered=0.0),
        GuessedViews(Nano(), views=2, least=0.6, covered=0.0),
    ),
    "secret masks": lambda: Lever(
        KeyedViews("nano", SECRET, views=2, least=1.0, covered=0.5),
        GuessedViews(Nano(), views=2, least=1.0, covered=0.5),
    ),
    "nano and dct together": lambda: Lever(
        SeveralHashes(["nano", "dct"]), Several((Nano(), Dct()))
    ),
    "stability check": lambda: Lever(
        load_hash("nano"),
        GuessedViews(Nano(), views=1, least=0.97, covered=0.0, noise=0.02),
        checked=True,
    ),
}


def lever_study(
    watermark: str, photos: list[Path], count: int, fpr: float, seed: int, run: Run
) -> dict[str, Any]:
    """For each lever: forgeries accepted by budget, and genuine pictures, also distorted."""
    if len(photos) < 2 * count:
        raise CoverLockError(f"{2 * count} photos are needed, but there are {len(photos)}")
    system = load_watermark(watermark)
    order = np.random.default_rng(seed).permutation(len(photos))[: 2 * count]
    squares = load_squares([photos[row] for row in order], system.native_size[0])
    depends = {"watermark": watermark, "count": count, "fpr": fpr, "seed": seed}
    depends["photos"] = digest([str(photo.resolve()) for photo in photos])
    figures: dict[str, Any] = {}
    for name in run.steps(list(LEVERS), "levers"):
        found = run.ledger.recall(**depends, lever=name)
        if found is None:
            lever = LEVERS[name]()
            locked = CoverLock(hash=lever.hash, key=lever.key, fpr=fpr).protect(system)
            scene = Scene(locked, originals=squares[count:], targets=squares[:count])
            found = _measure(scene, lever, seed)
            run.ledger.keep(found, **depends, lever=name)
        figures[name] = found
    return figures


def _measure(scene: Scene, lever: Lever, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    everyone = range(len(scene.targets))
    limit = _limit(lever.hash, scene.originals, rng) if lever.checked else 1.0

    def accepted(pictures: list[Picture8]) -> dict[str, Any]:
        looks = examine(scene.protected, pictures, scene.message, [None] * len(pictures))
        stable = [limit >= 1.0 or instability(lever.hash, p, rng) <= limit for p in pictures]
        passed = {
            r: sum(k.accepted[r] and s for k, s in zip(looks, stable, strict=True)) for r in RULES
        }
        return {rule: rate(total, len(pictures)) for rule, total in passed.items()}

    marked, originals = scene.released(everyone)
    used = bit_selection(None, CODE_BITS, scene.protected.bits)
    bits = None if lever.key else tuple(map(int, used))
    forgeries = {}
    for budget in BUDGETS:
        attack = FeatureCollision(budget=budget, known=lever.known, bits=bits, seed=seed)
        forged = attack.forge(marked, floats(scene.targets), originals=originals)
        forgeries[f"{budget:g}"] = accepted([to_8_bit(picture) for picture in forged])
    genuine = [scene.marked(index) for index in everyone]
    distorted = [change(p, rng) for change in EVALUATION.values() for p in genuine]
    return {
        "forgeries": forgeries,
        "genuine": accepted(genuine),
        "distorted": accepted(distorted),
        "hash_bit_error": _bit_error(lever.hash, genuine, distorted),
    }


def _bit_error(image_hash: ImageHash, clean: list[Picture8], distorted: list[Picture8]) -> float:
    """The share of code bits that the six distortions change."""
    sized = (clean, [_resized(picture, clean[0].shape[0]) for picture in distorted])
    before, after = (image_hash.logits(floats(pictures)) > 0 for pictures in sized)
    return float((np.tile(before, (len(EVALUATION), 1)) != after).mean())


def _resized(picture: Picture8, side: int) -> Picture8:
    """A crop brought back to the size of the others."""
    return to_8_bit(resample(to_float(picture), (side, side)))


def _limit(image_hash: ImageHash, pictures: list[Picture8], rng: np.random.Generator) -> float:
    """The instability that all but a few genuine pictures stay below after a distortion."""
    seen = [draw_training_distortion(rng)(picture, rng) for picture in pictures]
    return float(np.quantile([instability(image_hash, picture, rng) for picture in seen], SPARED))

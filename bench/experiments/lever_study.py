"""What each lever against a feature collision buys in forgeries, and costs in genuine pictures.

It is about codes alone: the payload is taken to be read without error, so the figures hold for any
watermark. Every lever stands alone: unless the lever is the key itself, the attacker knows which
bits of the code are used. Each attacker is adapted to the lever that is attacked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_bench.adaptive.attackers import SECRET
from coverlock_bench.adaptive.white_box import Public, WhiteBox
from coverlock_bench.attacks.best_match import BestMatch
from coverlock_bench.attacks.feature_collision import FeatureCollision
from coverlock_bench.intervals import rate
from coverlock_bench.ledger import Session, digest, rounded
from coverlock_bench.photos import Picture8, load_squares, resized
from coverlock_bench.trial import floats, forge
from coverlock_sdk import Key, load_hash
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.images.distortions import EVALUATION, draw_training_distortion
from coverlock_sdk.locking.keys import bit_selection
from coverlock_sdk.locking.statistics import hard_threshold
from coverlock_sdk.plugin_calls import hash_logits
from experiments.levers import GuessedViews, KeyedViews, Several, SeveralHashes, instability

SIDE = 256
"""Pixels of a picture."""

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
    "none": lambda: Lever(load_hash("nano"), Public("nano")),
    "key that selects bits": lambda: Lever(load_hash("nano"), Public("nano"), key=SECRET),
    "secret masks": lambda: Lever(
        KeyedViews("nano", SECRET, views=2, least=1.0, covered=0.5),
        GuessedViews(Public("nano"), views=2, least=1.0, covered=0.5),
    ),
    "nano and dct together": lambda: Lever(
        SeveralHashes(["nano", "dct"]), Several((Public("nano"), Public("dct")))
    ),
    "stability check": lambda: Lever(
        load_hash("nano"),
        GuessedViews(Public("nano"), views=1, least=0.97, covered=0.0, noise=0.02),
        checked=True,
    ),
}


def lever_study(
    photos: list[Path],
    count: int,
    bits: int,
    fpr: float,
    seed: int,
    session: Session,
    only: Sequence[str] = tuple(LEVERS),
) -> dict[str, Any]:
    """For each lever: collisions accepted by budget, and genuine pictures after distortion."""
    if len(photos) < 2 * count:
        raise CoverLockError(f"{2 * count} photos are needed, but there are {len(photos)}")
    order = np.random.default_rng(seed).permutation(len(photos))[: 2 * count]
    squares = load_squares([photos[row] for row in order], SIDE)
    depends: dict[str, Any] = {"count": count, "bits": bits, "fpr": fpr, "seed": seed}
    depends |= {"photos": digest(*squares), "attack": repr(FeatureCollision(hash="nano"))}
    figures: dict[str, Any] = {}
    for name in session.steps([name for name in LEVERS if name in only], "levers"):
        lever = LEVERS[name]()
        seen = digest(rounded(hash_logits(lever.hash, floats(squares[:1]))))
        key = {**depends, "lever": f"{name} {lever.known!r}", "hash": seen}

        def measure(lever: Lever = lever) -> dict[str, Any]:
            return _measure(lever, squares[count:], squares[:count], bits, fpr, seed)

        figures[name] = session.once(measure, **key)
    return figures


def _measure(
    lever: Lever,
    sources: list[Picture8],
    targets: list[Picture8],
    bits: int,
    fpr: float,
    seed: int,
) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    limit = _limit(lever.hash, sources, rng) if lever.checked else 1.0
    used = bit_selection(lever.key, CODE_BITS, bits)
    codes = _codes(lever.hash, sources)[:, used]

    def accepted(pictures: list[Picture8], aims: npt.NDArray[np.bool_]) -> dict[str, Any]:
        matches = (_codes(lever.hash, pictures)[:, used] == aims).sum(axis=1)
        passed = matches >= hard_threshold(bits, fpr)
        if lever.checked:
            passed &= [instability(lever.hash, picture, rng) <= limit for picture in pictures]
        return {
            "bits_matched": float(matches.mean() / bits),
            **rate(int(passed.sum()), len(passed)),
        }

    chosen = BestMatch("nano").choose(floats(sources), floats(targets))
    forgeries = {}
    for budget in BUDGETS:
        known = None if lever.key else tuple(map(int, used))
        attack = FeatureCollision(
            hash="nano", budget=budget, known=lever.known, bits=known, seed=seed
        )
        forged = forge(attack, sources, sources, targets)
        forgeries[f"{budget:g}"] = accepted(forged, codes[chosen])
    distorted = [resized(change(p, rng), SIDE) for change in EVALUATION.values() for p in sources]
    genuine = accepted(distorted, np.tile(codes, (len(EVALUATION), 1)))
    return {"forgeries": forgeries, "genuine": genuine}


def _codes(image_hash: ImageHash, pictures: list[Picture8]) -> npt.NDArray[np.bool_]:
    codes: npt.NDArray[np.bool_] = hash_logits(image_hash, floats(pictures)) > 0
    return codes


def _limit(image_hash: ImageHash, pictures: list[Picture8], rng: np.random.Generator) -> float:
    """The instability that all but a few genuine pictures stay below after a distortion."""
    seen = [draw_training_distortion(rng)(picture, rng) for picture in pictures]
    return float(np.quantile([instability(image_hash, picture, rng) for picture in seen], SPARED))

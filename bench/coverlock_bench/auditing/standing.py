"""Standing attacks: what once succeeded against the whole system, not its hash, stays tried.

Files that hold a marked picture and show another one, and messages put together from two others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from coverlock_bench.attacks.disguises import DISGUISES, Disguise
from coverlock_bench.intervals import rate
from coverlock_bench.ledger import Session, digest
from coverlock_bench.photos import Picture8
from coverlock_bench.trial import mark
from coverlock_sdk.arrays import Bits
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.conversion import read
from coverlock_sdk.locking.locked_watermark import LockedWatermark

COMBINED = "combined messages"
NAME = "standing"
MOST_PICTURES = 20


def standing_attacks(
    locked: LockedWatermark,
    pictures: Sequence[Picture8],
    others: Sequence[Picture8],
    session: Session,
) -> dict[str, Any]:
    """How often each attack on ``pictures`` is accepted by a lock with a key."""
    pairs = list(zip(pictures, others, strict=False))[:MOST_PICTURES]

    @cache
    def marked(row: int) -> Picture8:
        return mark(locked, pairs[row][0], NAME).picture

    def fooled(disguise: Disguise, row: int) -> bool:
        """Whether the marked picture is accepted from a file that shows the other one."""
        try:
            return bool(locked.verify(disguise(marked(row), pairs[row][1]), NAME).accepted)
        except PictureError:
            return False

    attacks: dict[str, Callable[[int], bool]] = {
        name: partial(fooled, disguise) for name, disguise in DISGUISES.items()
    }
    attacks[COMBINED] = lambda row: _takes_combined(locked, pairs[row][0])
    figures = {}
    for name in session.steps(list(attacks), "standing attacks"):
        key = {"kind": "standing", "attack": name, "lock": session.fingerprint(locked)}
        answers = [
            session.once(partial(attacks[name], row), **key, pictures=digest(*pair))
            for row, pair in enumerate(pairs)
        ]
        figures[name] = rate(sum(answers), len(answers))
    return figures


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

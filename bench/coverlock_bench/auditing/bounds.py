"""Bounds how far an invisible change takes a forger who has everything but the key."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import numpy as np

from coverlock_bench.auditing.trials import Division, Trials
from coverlock_bench.ledger import NotMeasuredError
from coverlock_bench.photos import Picture8
from coverlock_sdk import LockedWatermark
from coverlock_sdk.arrays import Logits
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_sdk.images.conversion import read
from coverlock_sdk.locking.bound import additive_bound

DECIBELS = 34.0
"""PSNR of a change that hardly anybody sees."""

MOST_PAIRS = 20


def invisible_changes(trials: Trials, division: Division) -> dict[str, Any]:
    """Odds that the best change of 34 dB makes a target pass for its nearest marked source."""
    locked = trials.protected
    if not isinstance(locked, LockedWatermark) or locked.keyring is None:
        raise NotMeasuredError("the bound is for locks with a key")
    lock, code = locked.lock, locked.lock.hash
    if not isinstance(code, OctaveCode):
        raise NotMeasuredError("the bound needs a linear hash: 'octave'")
    released, margins = [], []
    for row, source in enumerate(division.sources[:MOST_PAIRS]):
        message = trials.message(division.seed, row)
        mark = trials.mark(source, message)
        released.append(_code(code, mark.picture))
        terms = lock.terms(message, lock.keys[0])
        margins.append(terms.code_map.seen(released[-1][None])[0, mark.salt])
    sources = np.stack(released)
    lengths = np.linalg.norm(sources, axis=1)
    odds = []
    for target in division.targets[:MOST_PAIRS]:
        own = _code(code, target)
        nearest = int(np.argmax(sources @ own / lengths))
        given = sources[nearest], margins[nearest], DECIBELS, lock.floors
        odds.append(additive_bound(code, own, *given).odds)
    return {
        "decibels": DECIBELS,
        "pairs": len(odds),
        "sources": len(sources),
        "mean": fmean(odds),
        "most": max(odds),
    }


def _code(code: OctaveCode, picture: Picture8) -> Logits:
    """The code (dimensions,) of a whole picture."""
    size = code.input_size
    logits: Logits = code.code(read(picture, seen_at=size).view(size))[0]
    return logits

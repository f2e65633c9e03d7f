"""What trying all salts costs: false positives with the message held fixed, and time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from coverlock_bench.intervals import rate
from coverlock_bench.keyed import key_of
from coverlock_bench.knowing.codes import SURE
from coverlock_bench.ledger import Session, digest
from coverlock_bench.photos import Picture8
from coverlock_sdk import Key, wrap
from coverlock_sdk.arrays import Logits
from coverlock_sdk.locking.calibration import Calibration
from coverlock_sdk.locking.identification import Kind
from coverlock_sdk.locking.judging import Judge
from coverlock_sdk.locking.keyed_codes import salt_count
from coverlock_sdk.locking.keys import Keyring
from coverlock_sdk.locking.lock_format import LockFormat
from coverlock_sdk.locking.verdict import RULES, Rule

LEVELS = (0.1, 1e-2, 1e-3)
IDENTIFIERS = ("acme", "order-4711")
MOST_SALTS = 2**16
CANDIDATES = 10**6


SIMULATED = (32, 100)
"""Lengths of payloads that are drawn at random, where no watermark of that length is at hand."""


class ManySalts(Judge):
    """Tries as many salts for every message as the longest messages have."""

    def _salts(self, key: Key | None, kind: Kind) -> int:
        return MOST_SALTS


def false_positives(
    layout: LockFormat, decoded: Logits, hashed: Logits, fpr: float, seeds: int, run: Session
) -> dict[str, Any]:
    """Unmarked photos whose p-value is at most a level, for fixed keys and identifiers."""
    figures: dict[str, Any] = {"bits": layout.bits, "salts": salt_count(layout.bits)}
    asked = {"study": "false positives", "layout": repr(layout), "fpr": fpr, "seeds": seeds}
    for rule in RULES:
        figures[rule] = run.once(
            partial(_levels, layout, decoded, hashed, fpr, seeds, rule),
            **asked,
            rule=rule,
            pictures=digest(decoded, hashed),
        )
    return figures


def _levels(
    layout: LockFormat, decoded: Logits, hashed: Logits, fpr: float, seeds: int, rule: Rule
) -> dict[str, Any]:
    p_values = {
        f"key {seed}, {identifier}": np.array(
            [v.p_value for v in _judge(layout, seed, fpr, rule).verify(decoded, hashed, identifier)]
        )
        for seed in range(seeds)
        for identifier in IDENTIFIERS
    }
    return {
        f"{level:g}": {name: rate(int((p <= level).sum()), len(p)) for name, p in p_values.items()}
        for level in (*LEVELS, fpr)
    }


def simulated(hash: Calibration, bits: int, count: int, seed: int) -> tuple[LockFormat, Logits]:
    """A format for payloads of ``bits`` bits, and what a decoder may see of unmarked photos."""
    drawn = np.random.default_rng([seed, bits]).integers(0, 2, (count, bits))
    return LockFormat(bits, SURE, hash), 2 * drawn.astype(np.float32) - 1


def _judge(layout: LockFormat, seed: int, fpr: float, rule: Any) -> Judge:
    key = key_of("scheme 2", seed)
    assert key is not None
    return Judge(layout, Keyring([key]), fpr, rule)


def times(watermark: str, hash: str, picture: Picture8, rounds: int) -> dict[str, Any]:
    """Milliseconds of processor time without a key and with all salts, in turns on one core."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    lock, key = wrap(watermark, hash=hash), key_of("scheme 2")
    assert key is not None
    salted = ManySalts(lock.format, Keyring([key]), lock.fpr, lock.rule)
    usual = Judge(lock.format, Keyring([key]), lock.fpr, lock.rule)
    logits = lock.logits([picture])
    names = [f"customer {row}" for row in range(CANDIDATES // salt_count(lock.bits))]
    ways: dict[str, Callable[[], Any]] = {
        "keyless": lambda: lock.verify(picture, "acme"),
        "2^16 salts": lambda: salted.verify(*lock.logits([picture]), "acme"),
        "the lock alone, 2^16 salts": lambda: salted.verify(*logits, "acme"),
        "the lock alone": lambda: usual.verify(*logits, "acme"),
    }
    taken = {name: [_milliseconds(way) for _ in range(2)][1:] for name, way in ways.items()}
    for _ in range(rounds):
        for name, way in ways.items():
            taken[name].append(_milliseconds(way))
    book = usual.checked_book(names)
    identify = _milliseconds(lambda: usual.identify(*logits, book))
    return {name: float(np.median(each)) for name, each in taken.items()} | {
        "identify": identify,
        "identifiers": len(names),
        "candidates": len(names) * salt_count(lock.bits),
    }


def _milliseconds(action: Callable[[], Any]) -> float:
    start = time.process_time()
    action()
    return 1000 * (time.process_time() - start)

"""Are the p-values of unmarked pictures what they claim, with the message held fixed? (appendix F)

Random messages would prove nothing: with them, matches are fair coins whatever the networks do.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_bench.intervals import percentiles, rate
from coverlock_bench.kept_rows import kept_rows
from coverlock_bench.ledger import digest, fingerprint
from coverlock_bench.settings import named_watermark
from coverlock_sdk import CoverLock, Key, NoDefense
from coverlock_sdk.arrays import Bits, Floats
from coverlock_sdk.locking.keys import codeword
from coverlock_sdk.locking.lock import Lock
from coverlock_sdk.locking.statistics import binomial_tail
from coverlock_sdk.locking.verdict import RULES, Rule

LEVELS = (1e-1, 1e-2, 1e-3, 1e-4)
BOOTSTRAPS = 1000
CACHE = Path("runs/nulls")


def null_calibration(
    watermark: str, hash: str, photos: list[Path], messages: int, seed: int
) -> dict[str, Any]:
    """Match counts and p-values of unmarked photos against fixed messages, by kind of lock.

    P-values are those of verification, with every salt and every part of the picture that it tries.
    """
    system = named_watermark(watermark)
    key = Key(np.random.default_rng(seed).bytes(32), id="calibration", created="")
    public = CoverLock(hash).protect(system)
    locks = {
        "no lock": NoDefense().protect(system).lock,
        "locked without a key": public.lock,
        "locked": CoverLock(hash, key=key).protect(system).lock,
    }

    def row(photo: Path) -> Floats:
        seen = public.logits([photo])
        return np.stack([_figures(lock, *seen, messages) for lock in locks.values()])

    asked = digest(fingerprint(public), messages, seed, [str(path.resolve()) for path in photos])
    rows = kept_rows(CACHE / f"{system.name}-{asked}.npy", photos, row, system.name)
    return {
        name: _compared(rows[:, arm], lock.bits, seed, counted=lock.keyring is None)
        for arm, (name, lock) in enumerate(locks.items())
    }


def _figures(lock: Lock, decoded: Any, described: Any, count: int) -> Floats:
    """Of one picture: the p-value under each rule and the matches, (rules + 1, messages).

    Matches are those in the whole picture, which are only there without a key.
    """
    messages = _fixed(lock.bits, count)
    found = [
        [replace(lock, rule=rule).verify(decoded, described, m)[0].p_value for m in messages]
        for rule in RULES
    ]
    if lock.keyring is not None:
        return np.array([*found, [np.nan] * len(messages)])
    bits = lock.message_logits(decoded, described)[0] > 0
    return np.array([*found, [float((bits == m).sum()) for m in messages]])


@lru_cache(maxsize=2)
def _fixed(bits: int, count: int) -> list[Bits]:
    """Messages, all-zero first."""
    others = [codeword(f"fixed message {k}", None, bits) for k in range(1, count)]
    return [np.zeros(bits, dtype=np.uint8), *others]


def _compared(rows: Floats, bits: int, seed: int, counted: bool) -> dict[str, Any]:
    """The figures of all pictures (pictures, rules + 1, messages)."""
    pictures, _, messages = rows.shape
    resamples = np.random.default_rng(seed).integers(pictures, size=(BOOTSTRAPS, pictures))
    figures: dict[str, Any] = {
        "pictures": pictures,
        "messages": messages,
        "exceedance": {
            rule: _exceedance(rows[:, number], rule, bits, resamples)
            for number, rule in enumerate(RULES)
        },
    }
    return figures | (_counted(rows[:, -1], bits, resamples) if counted else {})


def _counted(counts: Floats, bits: int, resamples: npt.NDArray[np.int64]) -> dict[str, Any]:
    """The spread of match counts (pictures, messages), and its ratio to the binomial's."""
    ratios = _variance_ratios(counts, bits)
    low, high = percentiles(
        np.array([_variance_ratios(counts[rows], bits).mean() for rows in resamples])
    )
    return {
        "mean_match_rate": float(counts.mean() / bits),
        "variance_ratio": {
            "mean": float(ratios.mean()),
            "low": low,
            "high": high,
            "min": float(ratios.min()),
            "max": float(ratios.max()),
        },
        "match_histogram": np.bincount(
            counts.astype(np.int64).ravel(), minlength=bits + 1
        ).tolist(),
    }


def _variance_ratios(counts: Floats, bits: int) -> Floats:
    """Of each message: the variance of its matches over pictures, relative to the binomial's."""
    ratios: Floats = counts.var(axis=0, ddof=1) / (bits / 4)
    return ratios


def _exceedance(
    p_values: Floats, rule: Rule, bits: int, resamples: npt.NDArray[np.int64]
) -> dict[str, Any]:
    """How often p <= level, for p-values (pictures, messages), with an interval over pictures.

    No event has no spread: then the upper end is that of none among so many independent pictures.
    """
    report = {}
    for level in LEVELS:
        per_picture = (p_values <= level).mean(axis=1)
        low, high = percentiles(per_picture[resamples].mean(axis=1))
        if not per_picture.any():
            high = rate(0, len(p_values))["high"]
        tail = binomial_tail(bits)
        expected = float(tail[tail <= level].max()) if rule == "hard" else level
        report[f"{level:g}"] = {
            "expected": expected,
            "observed": float(per_picture.mean()),
            "low": low,
            "high": high,
            "at_most_expected": low <= expected,
        }
    return report

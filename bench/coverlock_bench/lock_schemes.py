"""What each way to lock costs genuine pictures: no key, keys of scheme 1, and of scheme 2.

Every photo is marked once for each way, without hardening, and distorted in the six ways of the
paper. Both rules judge the same pictures, with the floor on agreement and without it.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.intervals import rate
from coverlock_bench.keyed import key_of
from coverlock_bench.ledger import Session
from coverlock_sdk import Marked, load_watermark, wrap
from coverlock_sdk.arrays import Logits
from coverlock_sdk.errors import WeakMarkWarning
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.locking.judging import Judge
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.locking.verdict import RULES

SCHEMES = ("keyless", "scheme 1", "scheme 2")
KINDS = ("clean", *EVALUATION)
FLOORS = {"no floor": False, "floor": True}


def lock_schemes(
    watermark: str, hash: str, photos: list[Path], fpr: float, seed: int, run: Session
) -> dict[str, Any]:
    """Genuine pictures that each way to lock accepts, by rule and with or without the floor."""
    system = load_watermark(watermark)
    figures: dict[str, Any] = {"photos": len(photos), "bits": system.bits}
    for scheme in SCHEMES:
        lock = wrap(system, hash=hash, key=key_of(scheme, seed), fpr=fpr, harden=False)
        rows = []
        for index, photo in enumerate(run.steps(photos, f"{watermark}, {scheme}")):
            asked = {"study": "lock-schemes", "watermark": watermark, "hash": hash, "fpr": fpr}
            asked |= {"scheme": scheme, "photo": photo.name, "index": index, "seed": seed}
            row = run.ledger.recall(**asked)
            if row is None:
                row = _judged(lock, photo, f"photo {index}", [seed, index])
                run.ledger.keep(row, **asked)
            rows.append(row)
        figures[scheme] = _summary(rows, fpr)
    return figures


def _judged(lock: LockedWatermark, photo: Path, identifier: str, seed: list[int]) -> dict[str, Any]:
    """p-value, agreement and floor of one photo as marked and under each distortion, by rule."""
    marked, logits = marked_versions(lock, photo, identifier, seed)
    return {"psnr": marked.psnr} | {
        rule: _verdicts(lock, logits, identifier, rule) for rule in RULES
    }


def marked_versions(
    lock: LockedWatermark, photo: Path, identifier: str, seed: list[int]
) -> tuple[Marked, tuple[Logits, Logits]]:
    """One photo marked, and what decoder and hash make of it as it is and under each distortion."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakMarkWarning)
        marked = lock.mark(read(photo).to_bytes(), identifier)
    rng = np.random.default_rng(seed)
    pictures = [marked.picture, *(change(marked.picture, rng) for change in EVALUATION.values())]
    return marked, lock.logits(pictures)


def _verdicts(
    lock: LockedWatermark, logits: tuple[Logits, Logits], identifier: str, rule: Any
) -> list[list[float]]:
    judge = Judge(lock.format, lock.keyring, lock.fpr, rule)
    verdicts = judge.verify(*logits, [identifier] * len(KINDS))
    return [[verdict.p_value, verdict.agreement, verdict.floor] for verdict in verdicts]


def _summary(rows: list[dict[str, Any]], fpr: float) -> dict[str, Any]:
    summary: dict[str, Any] = {"psnr": float(np.mean([row["psnr"] for row in rows]))}
    for rule in RULES:
        p_values, agreements, floors = np.moveaxis(np.array([row[rule] for row in rows]), 2, 0)
        for name, with_floor in FLOORS.items():
            accepted = p_values <= fpr
            if with_floor:
                accepted = accepted & (agreements >= floors)
            six = accepted[:, 1:]
            summary[f"{rule}, {name}"] = {
                "clean": rate(int(accepted[:, 0].sum()), len(accepted)),
                "six": rate(int(six.sum()), six.size),
                **dict(zip(EVALUATION, six.mean(axis=0).tolist(), strict=True)),
            }
        summary[f"{rule}, agreement"] = {
            "median": float(np.median(agreements[:, 1:])),
            "lowest percent": float(np.quantile(agreements[:, 1:], 0.01)),
        }
    return summary

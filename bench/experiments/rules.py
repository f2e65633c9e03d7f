"""Hard against soft: which rule accepts more genuine pictures, and at what price in forgeries?

The default rule is chosen by this measurement, on photos held out from training.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.photos import Picture8
from coverlock_bench.settings import named_watermark
from coverlock_bench.trial import CLEAN, FORGED, mark, transplant_trial
from coverlock_sdk import CoverLock, NoDefense, codeword
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.locking.verdict import RULES
from coverlock_sdk.progress import progress


def compare_rules(
    watermark: str, hash: str, photos: list[Path], fpr: float, seed: int
) -> dict[str, Any]:
    """TPR under the six distortions and ASR of GT@1 transplants, by defence and rule.

    Every photo is marked once per defence; both rules judge the same pictures. Each residual is
    pasted onto the next photo, so sources and targets differ.
    """
    system = named_watermark(watermark)
    covers = [read(photo).to_bytes() for photo in photos]
    figures: dict[str, Any] = {"photos": len(photos)}
    locks = {
        "none": NoDefense(fpr=fpr).protect(system),
        "coverlock": CoverLock(hash=hash, fpr=fpr).protect(system),
    }
    for name, lock in locks.items():
        accepted = _accepted(lock, covers, np.random.default_rng(seed))
        figures[name] = {rule: _rates(accepted[rule], len(photos)) for rule in RULES}
    return figures


def _accepted(
    lock: LockedWatermark, covers: list[Picture8], rng: np.random.Generator
) -> dict[str, Counter[str]]:
    """How many pictures of each kind each rule accepts."""
    accepted: dict[str, Counter[str]] = {rule: Counter() for rule in RULES}
    label = f"{lock.watermark.name}, {lock.hash.name if lock.hash else 'no lock'}"
    for index, cover in enumerate(progress(covers, label)):
        message = codeword(f"photo {index}", None, lock.bits)
        victim = covers[(index + 1) % len(covers)]
        marked = mark(lock, cover, message)
        for name, outcome in transplant_trial(lock, cover, marked, victim, message, rng).items():
            for rule in RULES:
                accepted[rule][name] += outcome.accepted[rule]
    return accepted


def _rates(counts: Counter[str], photos: int) -> dict[str, Any]:
    tpr = {name: counts[name] / photos for name in (CLEAN, *EVALUATION)}
    return {
        "asr_gt1": counts[FORGED] / photos,
        "tpr": tpr,
        "tpr_mean_of_six": sum(tpr[name] for name in EVALUATION) / len(EVALUATION),
    }

"""Does a locked mark verify on the picture as saved, and what does fixed-point binding buy?"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.settings import named_watermark
from coverlock_bench.trial import mark
from coverlock_sdk import CoverLock, Marked, NoDefense, codeword
from coverlock_sdk.images.conversion import read
from coverlock_sdk.locking.verdict import RULES


def roundtrip(
    watermark: str, photos: Iterable[Path], hash: str, rounds: int, fpr: float
) -> dict[str, Any]:
    """Mark every photo with its own codeword, unlocked, locked once, and locked to a fixed point.

    Every row is about pictures rounded to 8 bits; hash errors are counted against the code that
    was embedded.
    """
    system = named_watermark(watermark)
    pictures = {photo.name: read(photo).to_bytes() for photo in photos}
    figures: dict[str, Any] = {}
    for rule in RULES:
        locks = {"none": NoDefense(fpr=fpr, rule=rule).protect(system)}
        for name, most in (("locked, 1 round", 1), (f"locked, {rounds} rounds", rounds)):
            locked = CoverLock(hash=hash, fpr=fpr, rule=rule, rounds=most, harden=False)
            locks[name] = locked.protect(system)
        for name, lock in locks.items():
            marks = {
                photo: mark(lock, picture, codeword(photo, None, lock.bits))
                for photo, picture in pictures.items()
            }
            figures[f"{rule}: {name}"] = _summary(marks)
    return figures


def _summary(marks: dict[str, Marked]) -> dict[str, Any]:
    verdicts = [mark.verdict for mark in marks.values()]
    bits = sum(verdict.bits for verdict in verdicts)
    return {
        "photos": len(marks),
        "accepted": sum(verdict.accepted for verdict in verdicts),
        "rejected_photos": {
            name: f"{mark.verdict.matches}/{mark.verdict.bits} bits, p = {mark.verdict.p_value:.2g}"
            for name, mark in marks.items()
            if not mark.verdict
        },
        "bit_accuracy": sum(verdict.matches for verdict in verdicts) / bits,
        "hash_bit_error": sum(mark.hash_errors for mark in marks.values()) / bits,
        "median_log10_p": float(np.median([np.log10(verdict.p_value) for verdict in verdicts])),
        "psnr_mean": float(np.mean([mark.psnr for mark in marks.values()])),
        "mean_rounds": float(np.mean([mark.rounds for mark in marks.values()])),
    }

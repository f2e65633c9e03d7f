"""What hardening buys, what it costs, and whether it helps a forger.

Every photo is marked as bound and hardened. A forger lifts the complete residual, hardening
included, and pastes it onto the next photo (GT@1).
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_bench.attacks.ground_truth import GroundTruthResidual
from coverlock_bench.photos import Picture8, to_8_bit, to_float
from coverlock_sdk import CoverLock, codeword, load_watermark
from coverlock_sdk.arrays import Bits
from coverlock_sdk.errors import WeakMarkWarning
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.images.kinds import read
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.locking.verdict import RULES
from coverlock_sdk.progress import progress

ARMS = {"as bound": False, "hardened": True}


@dataclass
class Tally:
    """What was seen of each photo under one arm."""

    psnr: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    errors: list[npt.NDArray[np.float64]] = field(default_factory=list)
    """Share of the embedded code's bits that differ: as marked, under the six, and forged."""
    accepted: dict[str, list[npt.NDArray[np.bool_]]] = field(
        default_factory=lambda: {rule: [] for rule in RULES}
    )


def hardening(watermark: str, hash: str, photos: list[Path], fpr: float, seed: int) -> Any:
    """Errors of the code, acceptance, PSNR and time, as bound and hardened, and forgeries."""
    system, attack = load_watermark(watermark), GroundTruthResidual(sources=1)
    covers = [read(photo).to_bytes() for photo in photos]
    locks = {arm: CoverLock(hash, fpr=fpr, harden=h).protect(system) for arm, h in ARMS.items()}
    tallies = {arm: Tally() for arm in ARMS}
    for index, cover in enumerate(progress(covers, watermark)):
        message = codeword(f"photo {index}", None, system.bits)[: locks["as bound"].bits]
        victim = to_float(covers[(index + 1) % len(covers)])[None]
        for arm, lock in locks.items():
            tally, rng, start = (
                tallies[arm],
                np.random.default_rng([seed, index]),
                time.perf_counter(),
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", WeakMarkWarning)
                marked = lock.mark(cover, message)
            tally.seconds.append(time.perf_counter() - start)
            tally.psnr.append(marked.psnr)
            forged = attack.forge(
                to_float(marked.picture)[None], victim, originals=to_float(cover)[None]
            )
            distorted = [distort(marked.picture, rng) for distort in EVALUATION.values()]
            seen = [marked.picture, *distorted, to_8_bit(forged[0])]
            _look(tally, lock, seen, message, marked.code)
    return {"photos": len(photos), **{arm: _summary(tally) for arm, tally in tallies.items()}}


def _look(
    tally: Tally, lock: LockedWatermark, seen: list[Picture8], message: Bits, code: Bits
) -> None:
    """What verification makes of the pictures, from one pass of decoder and hash."""
    decoded, hashed = lock.logits(seen)
    codes = lock.format.code(hashed, None)
    tally.errors.append((codes != code).mean(axis=1))
    readings = lock.format.readings(decoded, hashed, None)
    for rule in RULES:
        p_values = [reading.p_value(message, rule) for reading in readings]
        tally.accepted[rule].append(np.array(p_values) <= lock.fpr)


def _summary(tally: Tally) -> dict[str, Any]:
    errors = np.mean(tally.errors, axis=0)
    names = ("none", *EVALUATION)
    summary: dict[str, Any] = {
        "psnr_mean": float(np.mean(tally.psnr)),
        "seconds_median": float(np.median(tally.seconds)),
        "hash_bit_error": dict(zip(names, map(float, errors[:-1]), strict=True)),
        "hash_bit_error_mean_of_six": float(errors[1:-1].mean()),
        "forged_code_agreement": float(1 - errors[-1]),
    }
    for rule, accepted in tally.accepted.items():
        rates = np.mean(accepted, axis=0)
        summary[rule] = {
            "tpr_clean": float(rates[0]),
            "tpr_mean_of_six": float(rates[1:-1].mean()),
            "asr_gt1": float(rates[-1]),
        }
    return summary

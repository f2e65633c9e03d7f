"""What hardening buys, what it costs, and whether it helps a forger.

Every photo is marked as bound and hardened. A forger lifts the complete residual, hardening
included, and pastes it onto the next photo (GT@1).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.settings import named_watermark
from coverlock_bench.trial import CLEAN, FORGED, Outcome, mark, transplant_trial
from coverlock_sdk import CoverLock, Marked, codeword
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.locking.verdict import RULES
from coverlock_sdk.progress import progress

ARMS = {"as bound": False, "hardened": True}

Trial = tuple[Marked, float, dict[str, Outcome]]
"""A marked photo, the seconds that took, and what verification made of it and its versions."""


def hardening(watermark: str, hash: str, photos: list[Path], fpr: float, seed: int) -> Any:
    """Errors of the code, acceptance, PSNR and time, as bound and hardened, and forgeries."""
    system = named_watermark(watermark)
    covers = [read(photo).to_bytes() for photo in photos]
    locks = {arm: CoverLock(hash, fpr=fpr, harden=h).protect(system) for arm, h in ARMS.items()}
    trials: dict[str, list[Trial]] = {arm: [] for arm in ARMS}
    for index, cover in enumerate(progress(covers, watermark)):
        victim = covers[(index + 1) % len(covers)]
        for arm, lock in locks.items():
            message = codeword(f"photo {index}", None, lock.bits)
            start = time.perf_counter()
            marked = mark(lock, cover, message)
            seconds = time.perf_counter() - start
            rng = np.random.default_rng([seed, index])
            seen = transplant_trial(lock, cover, marked, victim, message, rng)
            trials[arm].append((marked, seconds, seen))
    return {"photos": len(photos), **{arm: _summary(found) for arm, found in trials.items()}}


def _summary(trials: list[Trial]) -> dict[str, Any]:
    def error(name: str) -> float:
        return float(
            np.mean([(seen[name].hash_errors or 0) / seen[name].bits for *_, seen in trials])
        )

    def accepted(rule: Any, name: str) -> float:
        return float(np.mean([seen[name].accepted[rule] for *_, seen in trials]))

    return {
        "psnr_mean": float(np.mean([marked.psnr for marked, *_ in trials])),
        "seconds_median": float(np.median([seconds for _, seconds, _ in trials])),
        "hash_bit_error": {"none": error(CLEAN), **{name: error(name) for name in EVALUATION}},
        "hash_bit_error_mean_of_six": float(np.mean([error(name) for name in EVALUATION])),
        "forged_code_agreement": 1 - error(FORGED),
        **{
            rule: {
                "tpr_clean": accepted(rule, CLEAN),
                "tpr_mean_of_six": float(np.mean([accepted(rule, name) for name in EVALUATION])),
                "asr_gt1": accepted(rule, FORGED),
            }
            for rule in RULES
        },
    }

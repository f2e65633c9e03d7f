"""What hardening buys, what it costs, and whether it helps a forger.

Every photo is marked without a lock, as bound and hardened, in turn. A forger lifts the complete
residual, hardening included, and pastes it onto the next photo (GT@1).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.settings import named_watermark
from coverlock_bench.trial import CLEAN, FORGED, Outcome, mark, transplant_trial
from coverlock_sdk import CoverLock, Key, Marked, NoDefense
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.locking.verdict import RULES
from coverlock_sdk.progress import progress

BARE, BOUND, HARDENED = "no lock", "as bound", "hardened"
KEYLESS = "hardened, without a key"
KEY = Key(bytes(range(32)), id="bench", created="")

Trial = tuple[Marked, float, dict[str, Outcome]]
"""A marked photo, the seconds that took, and what verification made of it and its versions."""


def hardening(watermark: str, hash: str, photos: list[Path], fpr: float, seed: int) -> Any:
    """Errors of the code, acceptance, PSNR and time in each arm, forgeries, and what a lock costs.

    Times are processor time, which a busy machine disturbs least.
    """
    system = named_watermark(watermark)
    covers = [read(photo).to_bytes() for photo in photos]
    arms: dict[str, CoverLock | NoDefense] = {
        BARE: NoDefense(fpr=fpr),
        BOUND: CoverLock(hash, key=KEY, fpr=fpr, harden=False),
        HARDENED: CoverLock(hash, key=KEY, fpr=fpr),
        KEYLESS: CoverLock(hash, fpr=fpr),
    }
    locks = {arm: defense.protect(system) for arm, defense in arms.items()}
    trials: dict[str, list[Trial]] = {arm: [] for arm in arms}
    for index, cover in enumerate(progress(covers, watermark)):
        victim = covers[(index + 1) % len(covers)]
        for arm, lock in locks.items():
            message = f"photo {index}"
            start = time.process_time()
            marked = mark(lock, cover, message)
            seconds = time.process_time() - start
            rng = np.random.default_rng([seed, index])
            seen = transplant_trial(lock, cover, marked, victim, message, rng)
            trials[arm].append((marked, seconds, seen))
    summaries = {arm: _summary(found) for arm, found in trials.items()}
    for summary in summaries.values():
        summary["lost"] = _lost(summaries[BARE], summary)
        summary["time_ratio"] = summary["seconds_mean"] / summaries[BOUND]["seconds_mean"]
    return {"photos": len(photos), **summaries}


def _lost(bare: dict[str, Any], locked: dict[str, Any]) -> dict[str, float]:
    """Shares of bits and of genuine pictures, over the six distortions, that the lock costs."""
    lost = {"bit_accuracy": bare["bit_accuracy"] - locked["bit_accuracy"]}
    return lost | {
        f"tpr_{rule}": bare[rule]["tpr_mean_of_six"] - locked[rule]["tpr_mean_of_six"]
        for rule in RULES
    }


def _summary(trials: list[Trial]) -> dict[str, Any]:
    def error(name: str) -> float:
        return float(
            np.mean([(seen[name].hash_errors or 0) / seen[name].bits for *_, seen in trials])
        )

    def accepted(rule: Any, name: str) -> float:
        return float(np.mean([seen[name].accepted[rule] for *_, seen in trials]))

    matched = [seen[name].matches / seen[name].bits for *_, seen in trials for name in EVALUATION]
    return {
        "psnr_mean": float(np.mean([marked.psnr for marked, *_ in trials])),
        "seconds_mean": float(np.mean([seconds for _, seconds, _ in trials])),
        "seconds_median": float(np.median([seconds for _, seconds, _ in trials])),
        "bit_accuracy": float(np.mean(matched)),
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

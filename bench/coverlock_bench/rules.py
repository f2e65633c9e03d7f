"""Hard against soft: which rule accepts more genuine pictures, and at what price in forgeries?

The default rule is chosen by this measurement, on photos held out from training.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_bench.attacks.ground_truth import GroundTruthResidual
from coverlock_bench.photos import to_8_bit, to_float
from coverlock_sdk import CoverLock, Defense, NoDefense, codeword, load_watermark
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.images.kinds import read
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.locking.verdict import RULES
from coverlock_sdk.progress import progress

Picture8 = npt.NDArray[np.uint8]


def compare_rules(
    watermark: str, hash: str, photos: list[Path], fpr: float, seed: int
) -> dict[str, Any]:
    """TPR under the six distortions and ASR of GT@1 transplants, by defence and rule.

    Every photo is marked once per defence; both rules judge the same pictures. Each residual is
    pasted onto the next photo, so sources and targets differ.
    """
    system = load_watermark(watermark)
    covers = [read(photo).to_bytes() for photo in photos]
    defenses: dict[str, Defense] = {
        "none": NoDefense(fpr=fpr),
        "coverlock": CoverLock(hash=hash, fpr=fpr),
    }
    figures: dict[str, Any] = {"photos": len(photos)}
    for name, defense in defenses.items():
        protected = defense.protect(system)
        assert isinstance(protected, LockedWatermark)
        accepted = _count_accepted(protected, covers, np.random.default_rng(seed))
        figures[name] = {rule: _rates(counts, len(photos)) for rule, counts in accepted.items()}
    return figures


def _count_accepted(
    protected: LockedWatermark, covers: list[Picture8], rng: np.random.Generator
) -> dict[str, Counter[str]]:
    attack = GroundTruthResidual(sources=1)
    accepted: dict[str, Counter[str]] = {rule: Counter() for rule in RULES}
    label = f"{protected.watermark.name}, {protected.hash.name if protected.hash else 'no lock'}"
    for index, cover in enumerate(progress(covers, label)):
        message = codeword(f"photo {index}", None, protected.bits)
        marked = protected.mark(cover, message).picture
        victim = covers[(index + 1) % len(covers)]
        forged = attack.forge(
            to_float(marked)[None], to_float(victim)[None], originals=to_float(cover)[None]
        )
        seen = {"clean": marked, "forged": to_8_bit(forged[0])}
        seen |= {name: distortion(marked, rng) for name, distortion in EVALUATION.items()}
        for rule, names in _accepted(protected, seen, message).items():
            accepted[rule].update(names)
    return accepted


def _rates(counts: Counter[str], photos: int) -> dict[str, Any]:
    tpr = {name: counts[name] / photos for name in ("clean", *EVALUATION)}
    return {
        "asr_gt1": counts["forged"] / photos,
        "tpr": tpr,
        "tpr_mean_of_six": sum(tpr[name] for name in EVALUATION) / len(EVALUATION),
    }


def _accepted(
    protected: LockedWatermark, seen: dict[str, Picture8], message: npt.NDArray[np.uint8]
) -> dict[str, list[str]]:
    """Which of the pictures each rule accepts, from one pass of decoder and hash."""
    logits = protected.logits(list(seen.values()))
    readings = dict(zip(seen, protected.format.readings(*logits, protected.keys[0]), strict=True))
    return {
        rule: [name for name, r in readings.items() if r.p_value(message, rule) <= protected.fpr]
        for rule in RULES
    }

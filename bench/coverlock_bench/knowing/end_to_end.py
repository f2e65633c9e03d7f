"""The main attacks with a real watermark: marked pictures in, forged pictures out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.intervals import rate
from coverlock_bench.keyed import key_of
from coverlock_bench.knowing.correlation import Correlation
from coverlock_bench.knowing.pictures import Album, forge, release
from coverlock_bench.knowing.residual_regression import ResidualRegression
from coverlock_bench.ledger import Session
from coverlock_bench.photos import Picture8
from coverlock_sdk import load_watermark, wrap
from coverlock_sdk.images.conversion import read
from coverlock_sdk.locking.locked_watermark import LockedWatermark

VICTIM = "alice"
FEW, MANY = 20, 200
"""Released pictures. Correlation is tried with few as well; attacks on codes go on to thousands."""

Forge = Callable[[Album], list[Picture8]]


@dataclass(frozen=True)
class Attempt:
    """An attack on some targets, from some numbers of released pictures."""

    targets: list[Picture8]
    counts: Sequence[int]
    forge: Forge


def end_to_end(
    watermark: str,
    hash: str,
    originals: list[Picture8],
    targets: list[Picture8],
    fpr: float,
    seed: int,
    run: Session,
    kept: Path,
) -> dict[str, Any]:
    """Forgeries accepted, by scheme, attack and number of released pictures."""
    system, figures = load_watermark(watermark), {}
    for scheme in ("scheme 1", "scheme 2"):
        lock = wrap(system, hash=hash, key=key_of(scheme, seed), fpr=fpr, harden=False)
        name = f"{watermark}-{hash}-{scheme.replace(' ', '-')}-{seed}.npy"
        album = cache(partial(release, lock, originals, VICTIM, kept / name))
        rows: dict[str, dict[str, Any]] = {}
        for attack, attempt in _attacks(lock, targets).items():
            for count in attempt.counts:
                asked = {"study": "end to end", "watermark": watermark, "hash": hash, "seed": seed}
                asked |= {"scheme": scheme, "attack": attack, "released": count, "fpr": fpr}
                row = run.ledger.recall(**asked, targets=len(attempt.targets))
                if row is None:
                    row = _judged(lock, attempt.targets, attempt.forge(album().first(count)))
                    run.ledger.keep(row, **asked, targets=len(attempt.targets))
                rows.setdefault(attack, {})[str(count)] = row
        figures[scheme] = rows
    return figures


def _attacks(lock: LockedWatermark, targets: list[Picture8]) -> dict[str, Attempt]:
    """Every attack by its name."""
    return {
        "correlation": Attempt(
            targets, [FEW, MANY], lambda album: forge(lock, Correlation(), album, targets)
        ),
        "residual regression": Attempt(
            targets,
            [MANY],
            lambda album: ResidualRegression().forge(album, targets, lock.logits(targets)[1]),
        ),
    }


def _judged(
    lock: LockedWatermark, targets: list[Picture8], forged: list[Picture8]
) -> dict[str, Any]:
    verdicts = lock.verify(forged, VICTIM)
    pairs = zip(targets, forged, strict=True)
    return rate(sum(map(bool, verdicts)), len(verdicts)) | {
        "agreement": float(np.mean([verdict.agreement for verdict in verdicts])),
        "psnr": float(np.mean([read(target).psnr(read(made)) for target, made in pairs])),
    }

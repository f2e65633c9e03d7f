"""The attacks with a real watermark: marked pictures in, forged pictures out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.attacks.optimisation import Optimisation
from coverlock_bench.intervals import rate
from coverlock_bench.keyed import key_of
from coverlock_bench.knowing.codes import CodeAttack
from coverlock_bench.knowing.correlation import Correlation
from coverlock_bench.knowing.hidden_salts import HiddenSalts
from coverlock_bench.knowing.linear import Logistic
from coverlock_bench.knowing.pictures import Album, embedded, forge, predicted, release
from coverlock_bench.knowing.reembedding import Reembedding
from coverlock_bench.knowing.residual_regression import ResidualRegression
from coverlock_bench.ledger import Session
from coverlock_bench.photos import Picture8, to_8_bit, to_float
from coverlock_sdk import load_watermark, wrap
from coverlock_sdk.images.conversion import read
from coverlock_sdk.locking.locked_watermark import LockedWatermark

VICTIM = "alice"
FEW = 20
"""Released pictures from which attacks on keys of scheme 1 are tried; attacks on codes say from how
many more each wins."""

LEARNERS: dict[str, CodeAttack] = {
    "correlation": Correlation(),
    "logistic regression": Logistic(),
    "hidden salts": HiddenSalts(),
    "re-embedding, best match": Reembedding(),
}
"""Attacks by those who have encoder and decoder."""

Forge = Callable[[Album], list[Picture8]]


@dataclass(frozen=True)
class Attempt:
    """An attack on some targets."""

    targets: list[Picture8]
    forge: Forge


def end_to_end(
    watermark: str,
    hash: str,
    originals: list[Picture8],
    targets: list[Picture8],
    slow: int,
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
        most = max(_counts(scheme, len(originals)))
        album = cache(partial(release, lock, originals[:most], VICTIM, kept / name))
        rows: dict[str, dict[str, Any]] = {}
        for attack, attempt in _attacks(lock, targets, slow).items():
            for count in _counts(scheme, len(originals)):
                asked = {"study": "end to end", "watermark": watermark, "hash": hash, "seed": seed}
                asked |= {"scheme": scheme, "attack": attack, "released": count, "fpr": fpr}
                row = run.ledger.recall(**asked, targets=len(attempt.targets))
                if row is None:
                    row = _judged(lock, attempt.targets, attempt.forge(album().first(count)))
                    run.ledger.keep(row, **asked, targets=len(attempt.targets))
                rows.setdefault(attack, {})[str(count)] = row
        figures[scheme] = rows
    return figures


def _counts(scheme: str, most: int) -> Sequence[int]:
    """From how many released pictures a scheme is attacked; few are enough for scheme 1."""
    return (min(FEW, most),) if scheme == "scheme 1" else (most,)


def _attacks(lock: LockedWatermark, targets: list[Picture8], slow: int) -> dict[str, Attempt]:
    """Every attack by its name."""
    few = targets[:slow]
    learners = {
        name: Attempt(targets, partial(forge, lock, attack, targets=targets))
        for name, attack in LEARNERS.items()
    }
    return {
        **learners,
        "decoder only": Attempt(few, partial(_optimised, lock, targets=few)),
        "residual regression": Attempt(
            targets,
            lambda album: ResidualRegression().forge(album, targets, lock.logits(targets)[1]),
        ),
        "feature collision": Attempt(few, partial(_collided, lock, targets=few)),
    }


def _optimised(lock: LockedWatermark, album: Album, targets: list[Picture8]) -> list[Picture8]:
    """Targets moved until the decoder reads what correlation says that they should carry."""
    payloads = predicted(lock, Correlation(), album, targets)
    views = np.stack([to_float(target) for target in targets])
    released = to_float(album.marked[0])
    written = Optimisation().written(views, payloads, lock.watermark, released)
    return [to_8_bit(view) for view in written]


def _collided(lock: LockedWatermark, album: Album, targets: list[Picture8]) -> list[Picture8]:
    """Targets changed until all their hash logits point as those of a released picture do.

    The public encoder then embeds the payload of that picture.
    """
    from coverlock_bench.hashes.collisions import Collision
    from coverlock_bench.hashes.opponents import opponent

    crowd, views = (np.stack([to_float(p) for p in each]) for each in (album.marked, targets))
    assert lock.hash_name is not None
    changed, aimed = Collision(34.0, keyed=True).forged(opponent(lock.hash_name), views, crowd)
    return embedded(lock, changed, album.seen.payloads[aimed])


def _judged(
    lock: LockedWatermark, targets: list[Picture8], forged: list[Picture8]
) -> dict[str, Any]:
    verdicts = lock.verify(forged, VICTIM)
    pairs = zip(targets, forged, strict=True)
    return rate(sum(map(bool, verdicts)), len(verdicts)) | {
        "agreement": float(np.mean([verdict.agreement for verdict in verdicts])),
        "psnr": float(np.mean([read(target).psnr(read(made)) for target, made in pairs])),
    }

"""``coverlock bench adaptive``"""

from __future__ import annotations

from pathlib import Path

from coverlock_bench.ledger import Ledger, Session, resumable
from coverlock_bench.measurement import Measured, count_option, measurement, work_option
from coverlock_bench.photos import find_photos
from coverlock_sdk.errors import CoverLockError


@measurement(
    "adaptive",
    "watermark images hash only fpr seed",
    count_option(30, "Targets of each attack."),
    work_option("adaptive"),
)
def adaptive(
    watermark: str,
    images: Path | None,
    hash: str,
    count: int,
    only: tuple[str, ...],
    fpr: float,
    seed: int,
    work: Path,
) -> Measured:
    """Attack the lock as someone who knows it: best match, feature collision, same scene."""
    from coverlock_bench.adaptive.attackers import ATTACKS
    from coverlock_bench.adaptive.attackers import adaptive as measure
    from coverlock_bench.adaptive.tables import ADAPTIVE

    photos = find_photos(images)
    wanted = chosen(only, ATTACKS, "attack")
    with resumable(work):
        session = Session(Ledger(work), quiet=False)
        figures = measure(watermark, hash, photos, count, fpr, seed, session, wanted)
    config = {"watermark": watermark, "hash": hash, "targets": count, "photos": len(photos)}
    return Measured({**config, "fpr": fpr, "seed": seed}, figures, ADAPTIVE.markdown(figures))


def chosen(only: tuple[str, ...], known: tuple[str, ...], kind: str) -> tuple[str, ...]:
    """The rows of a table that were asked for, or all; a misspelt one is refused."""
    unknown = [name for name in only if name not in known]
    if unknown:
        raise CoverLockError(f"there is no {kind} '{unknown[0]}': use {', '.join(known)}")
    return only or known

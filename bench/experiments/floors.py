"""What a floor on agreement stops, and what it costs: forgers with the weights, genuine pictures.

Photos are marked, distorted and forged once, and judged at every floor. What is kept are logits, so
that other ways to judge them need no other pictures. The default floors are chosen by this
measurement, on photos held out from training: the highest that cost genuine pictures at most
``AFFORDED``, on average over watermarks, without and with a key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from coverlock_bench.hashes.collision_report import (
    SEARCHES,
    TARGETS,
    attacked_photos,
    targets_and_crowd,
)
from coverlock_bench.hashes.ideal_lock import IdealLock
from coverlock_bench.keyed import key_of
from coverlock_bench.ledger import Session, digest
from coverlock_bench.lock_schemes import marked_versions
from coverlock_bench.settings import named_watermark
from coverlock_sdk import wrap
from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.errors import needs
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.locking.coverlock import DEFAULT_FPR
from coverlock_sdk.locking.judging import Judge
from coverlock_sdk.locking.verdict import RULES, Verdict

if TYPE_CHECKING:
    from coverlock_bench.hashes.collisions import Collision
    from coverlock_bench.hashes.opponents import Opponent

FLOORS = (0.0, 0.78, 0.79, 0.80, 0.82, 0.84, 0.85, 0.86, 0.87, 0.88, 0.90, 0.92, 0.94)
WAYS = {"keyless": "", "scheme 2": ", key"}

AFFORDED = 0.005
"""The share of genuine pictures under the six distortions that a default floor may cost."""

Judged = npt.NDArray[np.float64]
"""(..., 2): p-values and agreements."""


def floors(
    watermarks: Sequence[str],
    hash: str,
    photos: list[Path],
    count: int,
    targets: int,
    seed: int,
    run: Session,
) -> dict[str, Any]:
    """By rule and floor: the share of genuine pictures and the number of forgeries accepted.

    ``count`` of the ``photos`` are marked and distorted. Of those that the report on hashes
    attacks, the first ``targets`` are attacked, if any.
    """
    marked = np.random.default_rng([seed, 1]).permutation(len(photos))[:count]
    genuine = {
        f"{name}{WAYS[way]}": _genuine(name, way, hash, [photos[row] for row in marked], seed, run)
        for name, way in product(watermarks, WAYS)
    }
    forged = _forged(hash, photos, targets, seed, run) if targets else {}
    figures: dict[str, Any] = {}
    for rule in RULES:
        rows = {f"{floor:.2f}": _row(floor, rule, genuine, forged) for floor in FLOORS}
        free = rows[f"{FLOORS[0]:.2f}"]["tpr"]
        for row in rows.values():
            row["cost"] = {
                way: fmean(free[f"{name}{key}"] - row["tpr"][f"{name}{key}"] for name in watermarks)
                for way, key in WAYS.items()
            }
        figures[rule] = rows
    return figures


def affordable(figures: dict[str, Any]) -> str:
    """Of each rule, without a key and with one, the highest floor that may be the default."""
    highest = [
        f"{rule}{key} {max(f for f, row in rows.items() if row['cost'][way] <= AFFORDED)}"
        for rule, rows in figures.items()
        for way, key in WAYS.items()
    ]
    limit = f"{100 * AFFORDED:g} points"
    return f"the highest floors that cost at most {limit}: {'; '.join(highest)}"


def _row(floor: float, rule: str, genuine: Mapping[str, Any], forged: Any) -> dict[str, Any]:
    """What one floor lets pass."""
    shares = {
        name: _passed(judged[rule], floor)[:, 1:].mean(axis=0) for name, judged in genuine.items()
    }
    by_distortion = np.mean(list(shares.values()), axis=0)
    return {
        "tpr": {name: float(share.mean()) for name, share in shares.items()},
        "tpr_mean": float(by_distortion.mean()),
        "tpr_by_distortion": dict(zip(EVALUATION, by_distortion.tolist(), strict=True)),
        "collisions": {
            search: {
                "accepted": float(_passed(judged[rule], floor).mean(axis=1).sum()),
                "targets": len(judged[rule]),
            }
            for search, judged in forged.items()
        },
    }


def _passed(judged: Judged, floor: float) -> npt.NDArray[np.bool_]:
    passed: npt.NDArray[np.bool_] = (judged[..., 0] <= DEFAULT_FPR) & (judged[..., 1] >= floor)
    return passed


def _genuine(
    watermark: str, way: str, hash: str, photos: list[Path], seed: int, run: Session
) -> dict[str, Judged]:
    """By rule, verdicts (photos, versions, 2) on pictures as marked and distorted."""
    lock = wrap(named_watermark(watermark), hash=hash, key=key_of(way, seed))
    judges = {rule: Judge(lock.format, lock.keyring, lock.fpr, rule) for rule in RULES}
    same = run.fingerprint(lock)
    found: dict[str, list[Any]] = {rule: [] for rule in RULES}
    for index, photo in enumerate(run.steps(photos, f"{watermark}{WAYS[way]}")):
        name = f"photo {index}"

        def shown(photo: Path = photo, name: str = name, index: int = index) -> Any:
            _, logits = marked_versions(lock, photo, name, [seed, index])
            return [values.tolist() for values in logits]

        asked = {"same": same, "way": way, "seed": seed, "index": index, "photo": photo.name}
        decoded, hashed = _arrays(run.once(shown, study="floors, genuine", **asked))
        for rule, judge in judges.items():
            found[rule].append(_figures(judge.verify(decoded, hashed, name)))
    return {rule: np.array(rows) for rule, rows in found.items()}


def _forged(
    hash: str, photos: list[Path], count: int, seed: int, run: Session
) -> dict[str, dict[str, Judged]]:
    """By search and rule, verdicts (targets, keys, 2) on forgeries by somebody with the weights."""
    with needs("a search for collisions", "PyTorch", "torch"):
        from coverlock_bench.hashes.collisions import TOGETHER, Collision
        from coverlock_bench.hashes.opponents import opponent
    known = opponent(hash)
    assert known.calibration is not None
    most = min(TARGETS, len(photos) // 2)
    chosen = attacked_photos(photos, most, seed)
    targets, crowd = targets_and_crowd(chosen, most)
    targets = targets[:count]
    same = digest(known.judged(targets[:1]), seed, [photo.name for photo in chosen])
    found: dict[str, dict[str, Judged]] = {}
    for search, settings in SEARCHES.items():
        collision = Collision(**settings)
        parts = []
        for start in run.steps(range(0, len(targets), TOGETHER), f"{hash}, {search}"):
            together = len(targets[start : start + TOGETHER])
            asked = {"same": same, "search": repr(collision), "start": start, "count": together}
            forge = partial(_logits_from, start, collision, known, targets, crowd, seed)
            parts.append(_arrays(run.once(forge, study="floors, forged", **asked)))
        sources, forged = (np.concatenate(part) for part in zip(*parts, strict=True))
        lock = IdealLock(known.calibration, collision.keyed)
        found[search] = {rule: _by_target(lock.verdicts(sources, forged, rule)) for rule in RULES}
    return found


def _logits_from(
    start: int, collision: Collision, known: Opponent, targets: Images, crowd: Images, seed: int
) -> Any:
    """Hash logits of the sources that some forgeries aim at, and of the forgeries."""
    forged, aimed = collision.forged_from(start, known, targets, crowd, seed)
    return [known.judged(crowd[aimed]).tolist(), known.judged(forged).tolist()]


def _arrays(kept: Any) -> list[Logits]:
    return [np.array(values, dtype=np.float32) for values in kept]


def _by_target(of_keys: list[list[Verdict]]) -> Judged:
    return np.array([_figures(verdicts) for verdicts in of_keys]).swapaxes(0, 1)


def _figures(verdicts: Sequence[Verdict]) -> list[tuple[float, float]]:
    return [(verdict.p_value, verdict.agreement) for verdict in verdicts]

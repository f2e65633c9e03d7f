"""Does the estimate at embedding predict which pictures can be forged?

Pictures of held-out designs and held-out photos are marked by one lock, which knows them all. A
forger lifts the true residual of each and pastes it onto the others of its set: pictures of one
template, or at least of one kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_bench.hashes.kind_report import DRAWN
from coverlock_bench.photos import Picture8
from coverlock_bench.settings import named_watermark
from coverlock_bench.trial import TRANSPLANT, forge, mark
from coverlock_sdk import CoverLock, LockedWatermark
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.images.conversion import read
from coverlock_sdk.progress import progress
from coverlock_sdk.training.crowd import PHOTOS
from coverlock_sdk.training.kinds.collection import draw_sets

SIDE = 256
"""Of the pictures, in pixels: residuals go from each to each."""


def lookalikes(watermark: str, hash: str, photos: list[Path], count: int, fpr: float) -> Any:
    """By kind, what was estimated and how many forgeries were accepted; and how they go together.

    A picture can be forged if at least one forgery from it was accepted.
    """
    lock = CoverLock(hash, fpr=fpr).protect(named_watermark(watermark))
    census = lock.binder.census
    if census is None or not len(census.crowd):
        raise CoverLockError(
            f"the hash '{hash}' has no crowd: make one with 'coverlock train crowd'"
        )
    sets = draw_sets(DRAWN / str(count), "evaluation", count, photos)
    groups = [(kind, members) for kind, of_kind in sets.items() for members in of_kind]
    starts = range(0, min(len(photos), 6 * count) - count + 1, count)
    groups += [(PHOTOS, photos[start : start + count]) for start in starts]
    pictures = [
        (kind, [read(path).to_bytes((SIDE, SIDE)) for path in members]) for kind, members in groups
    ]
    for _, members in progress(pictures, "codes of pictures"):
        lock.remember(members)
    rows = [
        {"kind": kind, **row}
        for kind, members in progress(pictures, f"{watermark}, {hash}")
        for row in _trials(lock, members)
    ]
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    return {
        "crowd": len(census.crowd),
        **_agreement(rows),
        "kinds": {kind: _figures([r for r in rows if r["kind"] == kind]) for kind in kinds},
    }


def _trials(lock: LockedWatermark, pictures: Sequence[Picture8]) -> Iterator[dict[str, Any]]:
    for row, picture in enumerate(pictures):
        message = f"picture {row}"
        marked = mark(lock, picture, message)
        others = [other for index, other in enumerate(pictures) if index != row]
        forged = forge(TRANSPLANT, [marked.picture], [picture], others)
        accepted = [verdict.accepted for verdict in lock.verify(forged, message)]
        assert marked.lookalikes is not None
        yield {
            "expected": marked.lookalikes.expected,
            "own": marked.lookalikes.own,
            "warned": marked.lookalikes.count > 0,
            "warned_with_own": bool(marked.lookalikes),
            "forged": sum(accepted),
            "tried": len(others),
        }


def _figures(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "pictures": len(rows),
        "expected": float(np.median([row["expected"] for row in rows])),
        "own": float(np.median([row["own"] for row in rows])),
        "warned": float(np.mean([row["warned"] for row in rows])),
        "warned_with_own": float(np.mean([row["warned_with_own"] for row in rows])),
        "forged": sum(row["forged"] for row in rows),
        "tried": sum(row["tried"] for row in rows),
        "forgeable": float(np.mean([row["forged"] > 0 for row in rows])),
    }


def _agreement(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How well estimates and forgeries go together, over all pictures.

    By the crowd of the hash alone, as for a lock that was given nothing else, and with the other
    pictures of the vendor.
    """
    forgeable = np.array([row["forged"] > 0 for row in rows])
    return {
        "pictures": len(rows),
        "forgeable": int(forgeable.sum()),
        **_warnings(rows, "warned", "expected"),
        "with_own": _warnings(rows, "warned_with_own", "own"),
    }


def _warnings(rows: list[dict[str, Any]], warned_by: str, expected_by: str) -> dict[str, Any]:
    """How many warnings were right, and how the number of lookalikes goes with forgeries."""
    warned = np.array([row[warned_by] for row in rows])
    forgeable = np.array([row["forged"] > 0 for row in rows])
    expected = np.array([row[expected_by] for row in rows])
    share = np.array([row["forged"] / row["tried"] for row in rows])
    return {
        "hits": int((warned & forgeable).sum()),
        "false_alarms": int((warned & ~forgeable).sum()),
        "rank_correlation": _rank_correlation(expected, share),
    }


def _rank_correlation(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> float | None:
    """Spearman's: the correlation of ranks, equal values sharing theirs."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(_ranks(x), _ranks(y))[0, 1])


def _ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared: npt.NDArray[np.float64] = (last - (counts - 1) / 2)[place]
    return shared

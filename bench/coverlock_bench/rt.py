"""Residual transferability, RT@s: how much of a mark survives on pictures it was not made for.

See section 3.1 of the paper. It averages the true residual over s sources, so that the figure
describes the watermark and not an attack's skill at estimating residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_bench.intervals import BOOTSTRAPS, percentiles
from coverlock_bench.ledger import NotMeasuredError, Session, digest
from coverlock_sdk import Watermark
from coverlock_sdk.arrays import Bits, Images
from coverlock_sdk.images.conversion import Given
from coverlock_sdk.plugin_calls import ANY_SIZE_SIDE, decode, embed, working_size

COUNTS = (1, 10, 100, 1000)
"""The paper's numbers of sources (table 4)."""

MESSAGES = 20
"""In complementary pairs; five messages showed a decoder's bias more than its residuals."""

BLOCK = 25  # pictures in memory at a time


@dataclass(frozen=True)
class Transferability:
    """RT@s with a 95 % interval from resampling targets, and messages with their sources."""

    rt: float
    low: float
    high: float
    accuracy: float
    """Mean share of bits that decode from the forged pictures."""
    sources: int
    targets: int
    messages: int


@dataclass(frozen=True)
class Curve:
    """RT@s for several s, and how many pictures were missing for others."""

    points: tuple[Transferability, ...]
    missing: dict[int, int]
    """For each s with too few pictures: how many more it needs."""

    def to_dict(self) -> dict[str, Any]:
        """The curve as plain JSON values."""
        return {
            "points": [asdict(point) for point in self.points],
            "missing": {str(count): needed for count, needed in self.missing.items()},
        }


def residual_transferability(
    watermark: Watermark,
    images: Any,
    sources: int = 100,
    targets: int = 100,
    messages: int = MESSAGES,
    seed: int = 0,
) -> Transferability:
    """RT@``sources`` of a watermark, on pictures of any kind the SDK reads.

    ``targets`` pictures are set aside; for each random message a residual is averaged over
    ``sources`` of the others and pasted onto all targets. Messages come in pairs with their
    complements, so that the bias of a decoder cancels out. Marked and forged pictures are rounded
    to 8 bits, as saved ones are.
    """
    curve = transferability_curve(watermark, images, (sources,), targets, messages, seed)
    return curve.points[0]


def transferability_curve(
    watermark: Watermark,
    images: Any,
    counts: Sequence[int] = COUNTS,
    targets: int = 100,
    messages: int = MESSAGES,
    seed: int = 0,
    session: Session | None = None,
    side: int = ANY_SIZE_SIDE,
) -> Curve:
    """RT@s for every s in ``counts`` that there are enough pictures for.

    A smaller s uses the first sources of a larger one, so all counts together cost one embedding of
    the largest. A watermark of any size is measured on squares of ``side`` pixels.
    """
    views = _views(images, working_size(watermark, side))
    _refuse_too_few(len(views), min(counts), targets)
    missing = {s: s + targets - len(views) for s in counts if s + targets > len(views)}
    reached = sorted(s for s in counts if s not in missing)
    session = session or Session()
    order = np.random.default_rng(seed).permutation(len(views))
    victims, pool = views[order[:targets]], order[targets:]
    key = {
        "kind": "rt",
        "watermark": session.fingerprint(watermark),
        "pictures": digest(views),
        "targets": targets,
        "seed": seed,
    }
    kept: dict[int, list[list[float]]] = {s: [] for s in reached}
    for index in session.steps(range(messages), f"RT of {watermark.name}"):
        rng = np.random.default_rng([seed, index // 2])
        message = rng.integers(0, 2, watermark.bits, dtype=np.uint8) ^ np.uint8(index % 2)
        chosen = rng.permutation(pool)[: max(reached)]

        def decoded(message: Bits = message, chosen: Any = chosen) -> list[list[float]]:
            residuals = _mean_residuals(watermark, views, chosen, message, reached)
            return [_accuracy(watermark, victims, residuals[s], message) for s in reached]

        keys = [{**key, "sources": s, "message": index} for s in reached]
        for s, row in zip(reached, session.each(keys, decoded), strict=True):
            kept[s].append(row)
    return Curve(tuple(_point(np.array(rows), s, seed) for s, rows in kept.items()), missing)


def _mean_residuals(
    watermark: Watermark,
    views: Images,
    chosen: npt.NDArray[np.int64],
    message: Bits,
    counts: Sequence[int],
) -> dict[int, Images]:
    """The mean residual of the first s ``chosen`` pictures, for every s."""
    total = np.zeros(views.shape[1:], dtype=np.float64)
    means: dict[int, Images] = {}
    for start in range(0, len(chosen), BLOCK):
        originals = views[chosen[start : start + BLOCK]]
        marked = _saved(embed(watermark, originals, np.tile(message, (len(originals), 1))))
        for number, residual in enumerate(marked - originals, start + 1):
            total += residual
            if number in counts:
                means[number] = (total / number).astype(np.float32)
    return means


def _accuracy(
    watermark: Watermark, victims: Images, residual: Images, message: Bits
) -> list[float]:
    """The share of ``message`` that decodes from each of ``victims`` with ``residual`` on it."""
    shares: list[float] = []
    for start in range(0, len(victims), BLOCK):
        forged = np.clip(victims[start : start + BLOCK] + residual, 0, 1)
        decoded = decode(watermark, _saved(forged)) > 0
        shares += (decoded == message).mean(axis=1).tolist()
    return shares


def _point(accuracy: npt.NDArray[np.float64], sources: int, seed: int) -> Transferability:
    messages, targets = accuracy.shape
    low, high = _interval(accuracy, np.random.default_rng(seed))
    mean = float(accuracy.mean())
    return Transferability(rt_of(mean), low, high, mean, sources, targets, messages)


def _interval(accuracy: npt.NDArray[np.float64], rng: np.random.Generator) -> tuple[float, float]:
    """Resample pictures and pairs of messages, because the bits of one picture are dependent.

    A message and its complement share their sources, so they count as one.
    """
    messages, targets = accuracy.shape
    pairs = -(-messages // 2)
    drawn = 2 * rng.integers(pairs, size=(BOOTSTRAPS, pairs, 1))
    rows = np.minimum(np.concatenate([drawn, drawn + 1], axis=1), messages - 1)
    columns = rng.integers(targets, size=(BOOTSTRAPS, 1, targets))
    low, high = percentiles(accuracy[rows, columns].mean(axis=(1, 2)))
    return rt_of(low), rt_of(high)


def rt_of(accuracy: float) -> float:
    """RT for a mean share of bits read correctly; 0 means chance."""
    return max(2 * accuracy - 1, 0.0)


def _views(images: Any, size: tuple[int, int]) -> Images:
    """What a network sees of 8-bit files; lists are read one by one, because photos are large."""
    given = Given(images)
    views = np.empty((len(given), 3, *size), dtype=np.float32)
    for row, picture in enumerate(given):
        views[row] = picture.view(size)
    return _saved(views)


def _saved(images: Images) -> Images:
    return (np.rint(images * 255) / 255).astype(np.float32)


def _refuse_too_few(pictures: int, sources: int, targets: int) -> None:
    if pictures < sources + targets:
        raise NotMeasuredError(
            f"RT@{sources} on {targets} targets needs {sources + targets} different pictures, "
            f"but there are {pictures}"
        )

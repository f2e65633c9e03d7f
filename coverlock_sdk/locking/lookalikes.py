"""How distinctive a picture's code is: how many other pictures would pass for it.

Others are those of the crowd of its hash, and one's own, which the same lock was given. A forgery
between two pictures is accepted where their codes agree. Whole codes say how alike two pictures
are; the lock compares some bits of them, perhaps rotated, so what counts is how likely those agree,
given how far from zero this picture's lie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Floats, Logits
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.hashing.crowd import Crowd, crowd_of
from coverlock_sdk.hashing.own_crowd import OwnCrowd, Trace
from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.images.picture import Picture
from coverlock_sdk.locking.judging import Judge, Terms
from coverlock_sdk.locking.statistics import binomial_tail, soft_tail, soft_weights

CLOSEST = 1 - 0.5 / CODE_BITS
"""The agreement that two equal codes stand for: they might differ in half a bit."""


@dataclass(frozen=True)
class Lookalikes:
    """How many other pictures would pass for a picture."""

    expected: float
    """The number that is to be expected in the crowd of the hash, a sum of probabilities."""
    crowd: int
    """Pictures in that crowd; 0 where the hash has none."""
    closest: float
    """The share of its code in which the most similar one agrees."""
    kinds: dict[str, int]
    """How many of each kind of picture in the crowd, where there are any."""
    own: float = 0.0
    """The number that is to be expected among the other pictures that the same lock was given."""
    own_crowd: int = 0
    """How many those are."""

    @property
    def count(self) -> int:
        """The expected number in the crowd, rounded."""
        return round(self.expected)

    @property
    def own_count(self) -> int:
        """The expected number among one's own pictures, rounded."""
        return round(self.own)

    def __bool__(self) -> bool:
        return self.count > 0 or self.own_count > 0

    def __str__(self) -> str:
        others, remedy = [f"{self.count:,} of {self.crowd:,} other pictures"], ""
        if self.own_count:
            remedy = " (if they share a template, tell the hash: 'coverlock train templates')"
            yours = f"{self.own_count:,} of your {self.own_crowd:,} other pictures"
            crowd = [f"{self.count:,} of {self.crowd:,} reference pictures"] if self.count else []
            others = [yours if self.own_crowd > 1 else "your other picture", *crowd]
        return (
            f"{' and '.join(others)} would pass for this one; a forgery between such pictures will "
            f"be accepted{remedy}"
        )


class Census:
    """Counts lookalikes at the threshold of one lock."""

    def __init__(
        self, judge: Judge, read_crowd: Callable[[], Crowd | None], own: OwnCrowd | None = None
    ) -> None:
        self.judge, self._read_crowd = judge, read_crowd
        self.own = OwnCrowd() if own is None else own

    @classmethod
    def of(
        cls, image_hash: ImageHash | None, judge: Judge, own: str | Path | None
    ) -> Census | None:
        """A census by the crowd of a hash and by one's own, which may be kept in a file.

        None without a hash, where nothing tells pictures apart.
        """
        if image_hash is None:
            return None
        own_crowd = OwnCrowd.open(own, image_hash) if own is not None else None
        return cls(judge, partial(crowd_of, image_hash), own_crowd)

    @cached_property
    def crowd(self) -> Crowd:
        """The crowd of the hash, which is read on first use."""
        return self._read_crowd() or Crowd.empty()

    def remember(self, pictures: Sequence[Picture], hash_logits: Logits) -> list[Trace]:
        """Compare others with these pictures from now on; what is kept of each."""
        traces = [Trace.of(*pair) for pair in zip(pictures, hash_logits, strict=True)]
        self.own.add(traces)
        return traces

    def lookalikes(
        self, hash_logits: Logits, terms: Terms, salt: int, trace: Trace | None = None
    ) -> Lookalikes:
        """The lookalikes of a picture (256,) that is marked on these terms.

        With its ``trace`` it is compared with one's own pictures, too, except with itself.
        """
        others = Crowd.empty() if trace is None else self.own.others(trace)
        matches = np.concatenate([crowd.matches(hash_logits) for crowd in (self.crowd, others)])
        levels = np.flatnonzero(np.bincount(matches))
        own = np.abs(terms.code_map.selected(hash_logits[None], salt)[0])
        typical = np.sqrt(np.square(hash_logits).mean())
        [tries] = self.judge.format.tries(hash_logits[None], terms.code_map, [salt])
        weights, needed = self._threshold(own, self.judge.fpr / (tries * len(self.judge.keys)))
        margins = own / max(float(typical), 1e-12)
        by_level, alike = np.zeros(CODE_BITS + 1), levels / CODE_BITS
        by_level[levels] = np.minimum(
            _odds(alike, margins, weights, needed), self._odds_of_floor(alike, margins)
        )
        odds, of_others = np.split(by_level[matches], [len(self.crowd)])
        of_kinds = np.rint(np.bincount(self.crowd.kind, odds)).astype(int)
        return Lookalikes(
            expected=float(odds.sum()),
            crowd=len(self.crowd),
            closest=float(levels[-1] / CODE_BITS) if len(levels) else 0.0,
            kinds={self.crowd.kinds[k]: int(of_kinds[k]) for k in np.flatnonzero(of_kinds)},
            own=float(of_others.sum()),
            own_crowd=len(others),
        )

    def _odds_of_floor(self, alike: Floats, margins: Logits) -> Floats:
        """How likely pictures agree as far as the floor asks, by how alike their codes are."""
        if self.judge.keyring is not None and self.judge.rule == "soft":
            return _odds_by_doubt(alike, margins, self.judge.floor)
        even = np.full(len(margins), 1 / len(margins))
        return _odds(alike, margins, even, self.judge.floor)

    def _threshold(self, own: Logits, p_value: float) -> tuple[Floats, float]:
        """What each bit weighs, in sum one, and the sum that is unlikely enough."""
        layout, rule = self.judge.format, self.judge.rule
        if rule == "hard" or layout.hash is None:
            weights, tail = np.ones(len(own), dtype=np.int64), binomial_tail(len(own))
        else:
            weights = soft_weights(layout.hash.confidence(own))
            tail = soft_tail(weights)
        total = max(int(weights.sum()), 1)
        least = int(np.argmax(tail <= p_value)) if tail[-1] <= p_value else total + 1
        share = (least - 0.5) / total  # sums are whole numbers, the normal distribution is not
        return weights / total, share


def _odds(agreement: Floats, margins: Logits, weights: Floats, needed: float) -> Floats:
    """How likely pictures whose whole codes agree so far are accepted in place of this one.

    Two codes agree as the signs of Gaussians of one correlation would. Given this picture's
    ``margins``, each bit then agrees with a probability of its own.
    """
    correlation = np.sin(np.pi * (np.clip(agreement, 0.5, CLOSEST) - 0.5))[:, None]
    alike = _normal(correlation * margins / np.sqrt(1 - np.square(correlation)))
    mean = alike @ weights
    deviation = np.sqrt((alike * (1 - alike)) @ np.square(weights))
    return _normal((mean - needed) / np.maximum(deviation, 1e-9))


def _odds_by_doubt(agreement: Floats, margins: Logits, floor: float) -> Floats:
    """The same where a bit weighs as much as the other picture's hash is unsure of it.

    Its logit z is a Gaussian about a share of the margin, and weighs exp(-z^2).
    """
    correlation = np.sin(np.pi * (np.clip(agreement, 0.5, CLOSEST) - 0.5))[:, None]
    spread, mean = np.sqrt(1 - np.square(correlation)), correlation * margins

    def weight(sign: int, power: int) -> Floats:
        """The mean of exp(-power z^2) over the logits of one sign, times their share."""
        wider = 1 + 2 * power * np.square(spread)
        scale = np.exp(-power * np.square(mean) / wider) / np.sqrt(wider)
        return scale * _normal(sign * mean / (spread * np.sqrt(wider)))

    excess = (1 - floor) * weight(1, 1) - floor * weight(-1, 1)
    square = (1 - floor) ** 2 * weight(1, 2) + floor**2 * weight(-1, 2)
    deviation = np.sqrt(np.maximum(square - np.square(excess), 0).sum(axis=1))
    return _normal(excess.sum(axis=1) / np.maximum(deviation, 1e-9))


def _normal(x: npt.NDArray[np.floating]) -> Floats:
    """The normal distribution function, to a thousandth."""
    values: Floats = 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return values

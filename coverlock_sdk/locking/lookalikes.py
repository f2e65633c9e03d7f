"""How distinctive a picture's code is: how many other pictures would pass for it.

A forgery between two pictures is accepted where their codes agree. Codes of reference pictures say
how alike the whole codes of other pictures are; the lock compares some bits of them, perhaps
rotated, so what counts is how likely those agree, given how far from zero this picture's lie.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Floats, Logits
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.hashing.crowd import Crowd, crowd_of
from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.locking.judging import Judge, Terms
from coverlock_sdk.locking.statistics import binomial_tail, soft_tail, soft_weights

CLOSEST = 1 - 0.5 / CODE_BITS
"""The agreement that two equal codes stand for: they might differ in half a bit."""


@dataclass(frozen=True)
class Lookalikes:
    """How many of a crowd of other pictures would pass for a picture."""

    expected: float
    """The number that is to be expected, a sum of probabilities."""
    crowd: int
    closest: float
    """The share of its code in which the most similar one agrees."""
    kinds: dict[str, int]
    """How many of each kind of picture, where there are any."""

    @property
    def count(self) -> int:
        """The expected number, rounded."""
        return round(self.expected)

    def __bool__(self) -> bool:
        return self.count > 0

    def __str__(self) -> str:
        return (
            f"{self.count:,} of {self.crowd:,} other pictures would pass for this one; a forgery "
            "between such pictures will be accepted"
        )


class Census:
    """Counts lookalikes at the threshold of one lock."""

    def __init__(self, crowd: Crowd, judge: Judge) -> None:
        self.crowd, self.judge = crowd, judge

    @classmethod
    def of(cls, image_hash: ImageHash | None, judge: Judge) -> Census | None:
        """A census by the crowd of a hash, where there is one."""
        crowd = crowd_of(image_hash) if image_hash is not None else None
        return None if crowd is None else cls(crowd, judge)

    def lookalikes(self, hash_logits: Logits, terms: Terms, salt: int) -> Lookalikes:
        """The lookalikes of a picture (256,) that is marked on these terms."""
        matches = self.crowd.matches(hash_logits)
        levels = np.flatnonzero(np.bincount(matches))
        own = np.abs(terms.code_map.selected(hash_logits[None], salt)[0])
        typical = np.sqrt(np.square(hash_logits).mean())
        [tries] = self.judge.format.tries(hash_logits[None], terms.code_map, [salt])
        weights, needed = self._threshold(own, self.judge.fpr / (tries * len(self.judge.keys)))
        margins = own / max(float(typical), 1e-12)
        by_level = np.zeros(CODE_BITS + 1)
        alike, even = levels / CODE_BITS, np.full(len(own), 1 / len(own))
        by_level[levels] = np.minimum(
            _odds(alike, margins, weights, needed), _odds(alike, margins, even, self.judge.floor)
        )
        odds = by_level[matches]
        of_kinds = np.rint(np.bincount(self.crowd.kind, odds)).astype(int)
        return Lookalikes(
            expected=float(odds.sum()),
            crowd=len(self.crowd),
            closest=float(levels[-1] / CODE_BITS),
            kinds={self.crowd.kinds[k]: int(of_kinds[k]) for k in np.flatnonzero(of_kinds)},
        )

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


def _normal(x: npt.NDArray[np.floating]) -> Floats:
    """The normal distribution function, to a thousandth."""
    values: Floats = 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return values

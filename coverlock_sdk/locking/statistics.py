"""The probability that an unmarked picture does as well, by the hard and the soft rule.

For a uniformly random message the matches of an unmarked picture are independent fair coins. The
hard rule counts them; the soft rule weighs each by the confidence that decoder and hash have in it.
Weights are small integers, so the p-value of the weighted sum is computed exactly.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from coverlock_sdk.errors import MessageError

Rule = Literal["hard", "soft"]
RULES: tuple[Rule, ...] = get_args(Rule)

MAX_WEIGHT = 64

MOST_DOUBLINGS = 512
"""Scale counts down after this many coins: at 1,024, a float overflows."""

Weights = npt.NDArray[np.int64]


@lru_cache(maxsize=64)
def binomial_tail(bits: int) -> npt.NDArray[np.float64]:
    """P(Binomial(bits, 1/2) >= k) for k = 0 ... bits, correctly rounded."""
    counts = [math.comb(bits, k) for k in range(bits, -1, -1)]
    total, tail = 0, []
    for count in counts:
        total += count
        tail.append(total / 2**bits)
    result = np.array(tail[::-1])
    result.setflags(write=False)
    return result


def hard_threshold(bits: int, fpr: float) -> int:
    """The smallest number of matches with a p-value of at most ``fpr``."""
    check_fpr(bits, fpr)
    return int(np.argmax(binomial_tail(bits) <= fpr))


def check_fpr(bits: int, fpr: float, candidates: int = 1) -> None:
    """Refuse a false-positive rate that ``bits`` cannot reach with this many ``candidates``."""
    if not 0 < fpr < 1:
        raise MessageError(f"a false-positive rate must be strictly between 0 and 1, not {fpr:g}")
    if candidates * 2.0**-bits <= fpr:
        return
    needed = math.ceil(math.log2(candidates / fpr))
    among = f" among {candidates:,} candidates" if candidates > 1 else ""
    remedy = f"use at least {needed} bits or a higher rate"
    if candidates > 1 and 2.0**-bits <= fpr:
        remedy += f", or at most {math.floor(fpr * 2.0**bits):,} candidates"
    raise MessageError(
        f"{bits} bits cannot reach a false-positive rate of {fpr:g}{among}, "
        f"not even when all of them match: {remedy}"
    )


def soft_weights(confidence: npt.NDArray[np.float64]) -> Weights:
    """The log-odds that each bit is right, as multiples of 1/64 of the largest."""
    log_odds = np.log(confidence / (1.0 - confidence))
    largest = max(float(log_odds.max()), 1e-12)
    weights: Weights = np.rint(np.maximum(log_odds, 0) / largest * MAX_WEIGHT).astype(np.int64)
    return weights


def soft_tail(weights: Weights, heads: float = 0.5) -> npt.NDArray[np.float64]:
    """P(sum of ``weights`` times coins >= s) for s = 0 ... sum(weights), exactly.

    Only positive numbers are added, so even a tail of 1e-70 has full relative precision.
    """
    distribution, length = np.zeros(int(weights.sum()) + 1), 1
    distribution[0] = 1.0
    for weight in np.sort(weights):
        won = heads * distribution[:length]
        distribution[:length] *= 1 - heads
        distribution[weight : weight + length] += won
        length += int(weight)
    tail: npt.NDArray[np.float64] = np.cumsum(distribution[::-1])[::-1]
    return np.minimum(tail, 1.0)


def hard_p_value(matches: npt.NDArray[np.bool_]) -> float:
    """The p-value of a match pattern when matches are counted."""
    return float(binomial_tail(matches.size)[int(matches.sum())])


def soft_p_value(matches: npt.NDArray[np.bool_], weights: Weights) -> float:
    """The p-value of weighed matches: how often fair coins miss at most this much weight."""
    missed, halvings = int(weights[~matches].sum()), len(weights)
    chances = np.zeros(missed + 1)
    chances[0] = 1.0
    for tossed, weight in enumerate(np.sort(weights[weights <= missed]), 1):
        chances[weight:] += chances[: missed + 1 - weight].copy()
        if tossed % MOST_DOUBLINGS == 0:
            chances, halvings = np.ldexp(chances, -MOST_DOUBLINGS), halvings - MOST_DOUBLINGS
    return min(1.0, math.ldexp(chances.cumsum()[-1], -halvings))


def corrected(p_value: float, tries: float) -> float:
    """The p-value of the best of ``tries`` tests: 1 - (1 - p)^tries, accurate for tiny p."""
    if p_value >= 1:
        return 1.0
    return min(1.0, -math.expm1(tries * math.log1p(-p_value)))

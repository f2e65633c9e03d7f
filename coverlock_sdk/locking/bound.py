"""What a forger without the key can reach by an additive change: a number, not an experiment.

Signs of secret directions agree for two pictures as often as the angle between their codes says.
The code is linear, so the largest cosine that any change of a given size can reach is a small
problem with known matrices. Pictures that are warped or restyled are not covered.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from coverlock_sdk.arrays import Floats, Logits
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_sdk.hashing.views import SIDE
from coverlock_sdk.locking.readings import DEFAULT_FLOORS, Floors

SHARES = 8
"""Steps in which a forger's budget is shared out between bands; more are slower and tighter."""


@dataclass(frozen=True)
class Bound:
    """The most that a change of some decibels brings a forger, from one picture to another."""

    cosines: tuple[float, ...]
    """The largest cosine of each band, if the whole change is spent on it alone."""
    odds: float
    """The largest probability that such a forgery reaches all floors, however it is spent."""


def additive_bound(
    code: OctaveCode,
    target: Logits,
    source: Logits,
    margins: Logits,
    decibels: float,
    floors: Floors = DEFAULT_FLOORS,
) -> Bound:
    """The bound for a picture of code ``target`` that is made to pass for one of code ``source``.

    ``margins`` (bits,) is ``CodeMap.seen`` of the marked picture under its salt: salts and
    hardening make these numbers larger than chance would, which helps a forger.
    """
    edges = np.cumsum(code.bands)[:-1]
    pairs = zip(np.split(target, edges), np.split(source, edges), strict=True)
    length = math.sqrt(10 ** (-decibels / 10) * 3 * SIDE**2)
    shares = np.sqrt(np.arange(1, SHARES + 1) / SHARES)
    bands, cosines = len(code.bands), []
    agree = np.empty((SHARES, len(margins)))
    for band, (z, s) in enumerate(pairs):
        reached = [_largest_cosine(z, s, *spectra(code)[band], length * share) for share in shares]
        cosines.append(reached[-1])
        sizes = np.abs(margins[band::bands]) / np.sqrt(np.square(s).mean())
        agree[:, band::bands] = [agreement(cosine, sizes) for cosine in reached]
    places = np.arange(len(margins))
    odds = [
        passing(agree[np.array(split)[places % bands] - 1, places], bands, floors)
        for split in splits(code)
    ]
    return Bound(tuple(cosines), max(odds))


@lru_cache(maxsize=1)
def splits(code: OctaveCode) -> list[tuple[int, ...]]:
    """Shares of the squared length of a change, in steps, no change having more in every band.

    Bands share pixels, so shares add up to more than one: those of two bands to at most one plus
    the largest cosine between what the two see. Shares are rounded up to whole steps.
    """
    bands = range(len(code.bands))
    roots = [vectors / np.maximum(reach, 1e-9) for reach, vectors in spectra(code)]
    limits = {}
    for one, other in itertools.combinations(bands, 2):
        overlap = np.linalg.norm(roots[one].T @ code.gram_of(one, other) @ roots[other], ord=2)
        limits[one, other] = SHARES * (1 + min(float(overlap), 1.0))

    def fits(split: Floats) -> bool:
        return split.max() <= SHARES and all(
            split[one] + split[other] - 2 <= limit for (one, other), limit in limits.items()
        )

    every = map(np.array, itertools.product(range(1, SHARES + 1), repeat=len(bands)))
    more = np.eye(len(bands), dtype=int)
    return [tuple(split) for split in every if fits(split) and not any(map(fits, split + more))]


def agreement(cosine: float, margins: Logits) -> Floats:
    """How likely numbers of these ``margins`` keep their signs at a cosine, in typical numbers."""
    if cosine >= 1:
        return np.ones(len(margins))
    ratio = cosine / math.sqrt(1 - cosine**2)
    return np.array([0.5 * math.erfc(-ratio * float(m) / math.sqrt(2)) for m in margins])


def passing(agree: Floats, bands: int, floors: Floors) -> float:
    """How likely bits that agree with these probabilities reach the floors of each band and all."""
    total: Floats = np.ones(1)
    for band in range(bands):
        count: Floats = np.ones(1)  # the probabilities that 0, 1, 2 ... bits agree
        for probability in agree[band::bands]:
            count = np.convolve(count, [1 - probability, probability])
        if bands > 1:
            count[: floors.least_in_band(len(count) - 1)] = 0
        total = np.convolve(total, count)
    return float(total[floors.least(len(agree)) :].sum())


@lru_cache(maxsize=1)
def spectra(code: OctaveCode) -> list[tuple[Floats, Floats]]:
    """Per band, how far changes of unit norm move the code, along which directions."""
    pairs = [np.linalg.eigh(code.gram_of(band, band)) for band in range(len(code.bands))]
    return [(np.sqrt(np.maximum(values, 0)), vectors) for values, vectors in pairs]


def _largest_cosine(
    target: Logits, source: Logits, reach: Floats, directions: Floats, length: float
) -> float:
    """max cos(z + B d, s) over |d| <= length, exactly.

    For a weight k, the change that maximises s.y - k |y|^2 / 2 is w = r (s - k z) / (m + k r^2) in
    the eigenbasis, m being such that |w| is the length. The best k is found by a scan that narrows.
    """
    z, s = target @ directions, source @ directions
    s = s / max(float(np.linalg.norm(s)), 1e-12)

    def reached(weights: Floats) -> Floats:
        """The cosine for each of ``weights`` k, the length of the change found by bisection."""
        k = weights[:, None]
        pull, bend = reach * (s - k * z), k * np.square(reach)
        low, high = np.full_like(k, -30.0), np.full_like(k, 30.0)
        for _ in range(60):
            middle = (low + high) / 2
            size = np.linalg.norm(pull / (np.exp(middle) + bend), axis=1, keepdims=True)
            low, high = np.where(size > length, middle, low), np.where(size > length, high, middle)
        y = z + reach * pull / (np.exp(high) + bend)
        cosines: Floats = y @ s / np.maximum(np.linalg.norm(y, axis=1), 1e-12)
        return cosines

    around, width = -math.log(max(float(np.linalg.norm(z)), 1e-6)), 12.0
    best = -1.0
    for _ in range(6):
        grid = np.linspace(around - width, around + width, 13)
        found = reached(np.exp(grid))
        place = int(found.argmax())
        best, around, width = max(best, float(found[place])), float(grid[place]), width / 5
    return min(best, 1.0)

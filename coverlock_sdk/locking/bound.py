"""Compute how far an additive change can take a forger without the key.

The angle between the codes of two pictures determines how often their secret bits agree. The code
is linear, so the largest cosine that a change of a given size can reach follows from known
matrices. The bound does not cover pictures that are warped or restyled.
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
from coverlock_sdk.locking.verdict import DEFAULT_FLOORS, Floors

SHARES = 8
"""Steps in which a forger's budget is split between bands. More steps are slower and tighter."""


@dataclass(frozen=True)
class Bound:
    """How far a change of a given size can take a forger from one picture to another."""

    cosines: tuple[float, ...]
    """The largest cosine in each band if the whole change goes into that band."""
    odds: float
    """The highest probability of reaching all floors, however the change is split."""


def additive_bound(
    code: OctaveCode,
    target: Logits,
    source: Logits,
    margins: Logits,
    decibels: float,
    floors: Floors = DEFAULT_FLOORS,
) -> Bound:
    """The bound for making a picture with code ``target`` pass for one with code ``source``.

    ``margins`` (bits,) is ``CodeMap.seen`` of the marked picture under its salt. Salts and
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
    """Ways to split the squared length of a change between bands, in steps; they cover all changes.

    Bands share pixels, so shares can add up to more than one: for two bands, to at most one plus
    the largest cosine between what they see. Shares are rounded up to whole steps.
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
    """Probability that each number keeps its sign at a cosine; margins are in typical numbers."""
    if cosine >= 1:
        return np.ones(len(margins))
    ratio = cosine / math.sqrt(1 - cosine**2)
    return np.array([0.5 * math.erfc(-ratio * float(m) / math.sqrt(2)) for m in margins])


def passing(agree: Floats, bands: int, floors: Floors) -> float:
    """Probability that bits which agree this often reach the floors of every band and the whole."""
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
    """For each band, the directions in which unit changes move the code, and how far."""
    pairs = [np.linalg.eigh(code.gram_of(band, band)) for band in range(len(code.bands))]
    return [(np.sqrt(np.maximum(values, 0)), vectors) for values, vectors in pairs]


def _largest_cosine(
    target: Logits, source: Logits, reach: Floats, directions: Floats, length: float
) -> float:
    """max cos(z + B d, s) over |d| <= length, exactly.

    For a weight k, the change that maximises s.y - k |y|^2 / 2 is w = r (s - k z) / (m + k r^2) in
    the eigenbasis, where m makes |w| equal the length. A narrowing scan finds the best k.
    """
    z, s = target @ directions, source @ directions
    s = s / max(float(np.linalg.norm(s)), 1e-12)

    def reached(weights: Floats) -> Floats:
        """The cosine for each k in ``weights``; bisection finds the length of the change."""
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

"""What a forger without the key can reach by an additive change: a number, not an experiment.

Signs of directions that nobody but the vendor knows agree for two pictures as often as the angle
between their codes says. The code is linear, so the largest cosine that any change of a given size
can reach is a small problem with known matrices. The forger's networks, steps and cleverness do not
appear in it. It covers additive changes and no more: a picture that is warped or restyled is
another matter, and a registry is the answer to that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from coverlock_sdk.arrays import Floats, Logits
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_sdk.hashing.views import SIDE
from coverlock_sdk.locking.readings import Floors


@dataclass(frozen=True)
class Bound:
    """The most that a change of some decibels brings a forger, from one picture to another."""

    cosines: tuple[float, ...]
    """The largest cosine of each band, as if the whole change were spent on it alone."""
    odds: float
    """The largest probability that such a forgery reaches all floors, from these cosines."""


def additive_bound(
    code: OctaveCode,
    target: Logits,
    source: Logits,
    margins: Logits,
    decibels: float,
    floors: Floors | None = None,
) -> Bound:
    """The bound for a picture of code ``target`` that is made to pass for one of code ``source``.

    ``margins`` (bits,) are the numbers of the marked picture whose signs lock its message
    (``CodeMap.seen`` under its salt): salts and hardening make them larger than chance would, which
    helps a forger.
    """
    edges = np.cumsum(code.bands)[:-1]
    length = math.sqrt(10 ** (-decibels / 10) * 3 * SIDE**2)
    bands, cosines = len(code.bands), []
    agree = np.empty(len(margins))
    for band, (z, s) in enumerate(
        zip(np.split(target, edges), np.split(source, edges), strict=True)
    ):
        cosines.append(_largest_cosine(z, s, *spectra(code)[band], length))
        sizes = np.abs(margins[band::bands]) / np.sqrt(np.square(s).mean())
        agree[band::bands] = agreement(cosines[-1], sizes)
    return Bound(tuple(cosines), passing(agree, bands, floors or Floors()))


def agreement(cosine: float, margins: Logits) -> Floats:
    """How likely numbers of these ``margins`` keep their signs at a cosine, in typical numbers."""
    if cosine >= 1:
        return np.ones(len(margins))
    ratio = cosine / math.sqrt(1 - cosine**2)
    return np.array([0.5 * math.erfc(-ratio * float(m) / math.sqrt(2)) for m in margins])


def passing(agree: Floats, bands: int, floors: Floors) -> float:
    """How likely bits that agree with these probabilities reach the floors of each band and all."""
    total = np.ones(1)
    for band in range(bands):
        count = _distribution(agree[band::bands])
        if bands > 1:
            count[: floors.least(len(count) - 1, floors.band_forger, floors.band_odds)] = 0
        total = np.convolve(total, count)
    return float(total[floors.least(len(agree), floors.forger, floors.odds) :].sum())


def _distribution(agree: Floats) -> Floats:
    """The probabilities that 0, 1, 2 ... of independent bits agree."""
    distribution: Floats = np.ones(1)
    for probability in agree:
        distribution = np.convolve(distribution, [1 - probability, probability])
    return distribution


@lru_cache(maxsize=1)
def spectra(code: OctaveCode) -> list[tuple[Floats, Floats]]:
    """Per band, how far changes of unit norm move the code, along which directions."""
    found = []
    for gram in code.band_grams():
        values, vectors = np.linalg.eigh(gram)
        found.append((np.sqrt(np.maximum(values, 0)), vectors))
    return found


def _largest_cosine(
    target: Logits, source: Logits, reach: Floats, directions: Floats, length: float
) -> float:
    """max cos(z + B d, s) over |d| <= length, exactly.

    For a weight k, the change that maximises s.y - k |y|^2 / 2 is w = r (s - k z) / (m + k r^2) in
    the eigenbasis, m being such that |w| is the length. The best k is found by a scan that narrows.
    """
    z, s = target @ directions, source @ directions
    s = s / max(float(np.linalg.norm(s)), 1e-12)

    def cosine(k: float) -> float:
        def change(m: float) -> Floats:
            w: Floats = reach * (s - k * z) / (m + k * np.square(reach))
            return w

        low, high = -30.0, 30.0
        if np.linalg.norm(change(math.exp(low))) > length:
            for _ in range(80):
                middle = (low + high) / 2
                if np.linalg.norm(change(math.exp(middle))) > length:
                    low = middle
                else:
                    high = middle
        y = z + reach * change(math.exp(high if high < 30 else low))
        return float(s @ y / max(float(np.linalg.norm(y)), 1e-12))

    around, width = -math.log(max(float(np.linalg.norm(z)), 1e-6)), 12.0
    best = -1.0
    for _ in range(6):
        grid: Sequence[float] = np.linspace(around - width, around + width, 13).tolist()
        values = [cosine(math.exp(k)) for k in grid]
        place = int(np.argmax(values))
        best, around, width = max(best, values[place]), grid[place], width / 5
    return min(best, 1.0)

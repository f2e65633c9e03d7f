"""Reading one picture in one frame under one salt, and how much of it must agree.

The p-value covers unmarked pictures, whose bits match like fair coins. A floor is a second test
against forgers: similar pictures have similar codes, so each bit of a forgery agrees with some
probability. Bits that the decoder cannot read do not count toward a floor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Bits, Floats, Logits
from coverlock_sdk.calibration import Calibration
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.frames import WHOLE, Frame
from coverlock_sdk.locking.keys import Key
from coverlock_sdk.locking.registry import Likeness
from coverlock_sdk.locking.statistics import (
    Weights,
    hard_p_value,
    soft_p_value,
    soft_tail,
    soft_weights,
)
from coverlock_sdk.locking.verdict import Rule

STEPS = 12
"""Steps of legibility that floors distinguish; coarse, so that results can be cached."""

SHORT_BAND = 16
"""Shorter bands are coarse: a floor that keeps a forger out would require all of their bits."""

SHORT_ODDS = 2.5
"""Factor for a forger's odds in a short band, so that one bit may be wrong."""


@dataclass(frozen=True)
class Reading:
    """One way to read a picture: which bits agree, how far each can be trusted, and where."""

    matches: npt.NDArray[np.bool_]
    """Which bits of the message were read."""
    confidence: Floats
    """Probability that decoder and hash together have each bit right."""
    legibility: Floats
    """The same probability for the decoder alone."""
    bands: int = 1
    """Number of bands; bits go to them in turn."""
    locked: bool = True
    key: Key | None = None
    frame: Frame = WHOLE
    tries: float = 1.0
    """How many trials this reading costs; an unlikely salt or frame costs many."""
    likeness: Likeness | None = None
    """How similar the picture is to the one that a registry remembers."""

    @classmethod
    def unlocked(cls, odds: Floats, message: Bits) -> Reading:
        """What the decoder reads without a lock."""
        sure = Calibration().confidence(odds)
        return cls((odds > 0) == message, sure, sure, locked=False)

    @classmethod
    def of(
        cls,
        odds: Floats,
        seen: Logits,
        code: Bits,
        image_hash: ImageHash,
        key: Key | None,
        frame: Frame,
        tries: float,
    ) -> Reading:
        """What decoder and hash show together; ``code`` is already XORed with the message."""
        read = Calibration().confidence(odds)
        certain = image_hash.calibration.confidence(seen)
        right = read * certain + (1 - read) * (1 - certain)
        bands = len(image_hash.bands)
        return cls((odds > 0) == code, right, read, bands, True, key, frame, tries)

    def weights(self, rule: Rule) -> Weights:
        """The weight of each bit under ``rule``."""
        if rule == "hard":
            return np.ones(len(self.matches), dtype=np.int64)
        return soft_weights(self.confidence)

    def p_value(self, rule: Rule) -> float:
        """Probability that an unmarked picture agrees with the message as well as this one."""
        if rule == "hard":
            return hard_p_value(self.matches)
        return soft_p_value(self.matches, self.weights(rule))


@dataclass(frozen=True)
class Floors:
    """How much of a message must be read, whatever its p-value.

    A forger whose bits agree with probability ``forger`` reaches the floor with probability
    ``odds``. The other two numbers set the floor of each band. Chosen on training photos: the
    highest floors that cost genuine pictures less than half a point under the six distortions.
    """

    forger: float = 0.8
    odds: float = 0.05
    band_forger: float = 0.75
    band_odds: float = 0.1

    def tightest(self, reading: Reading, rule: Rule) -> tuple[float, float]:
        """Agreement and floor of the band that is closest to failing.

        Agreement is the share of the message that was read, weighing bits by their legibility.
        """
        if not reading.locked:
            return float(reading.matches.mean()), 0.0
        weights = np.full(len(reading.matches), STEPS)
        if rule == "soft":
            weights = np.rint((2 * reading.legibility - 1) * STEPS).astype(np.int64)
        pairs = [_held(reading.matches, weights, self.forger, self.odds)]
        if reading.bands > 1:
            for band in range(reading.bands):
                own = slice(band, None, reading.bands)
                matches, odds = reading.matches[own], self.odds_in_band(len(weights[own]))
                pairs.append(_held(matches, weights[own], self.band_forger, odds))
        return min(pairs, key=lambda pair: pair[0] - pair[1])

    def odds_in_band(self, bits: int) -> float:
        """The odds that a forger may have of reaching the floor of a band with this many bits."""
        return self.band_odds * (SHORT_ODDS if bits < SHORT_BAND else 1.0)

    def least(self, bits: int) -> int:
        """How many bits of a message must agree if all are legible."""
        return _least((1,) * bits, self.forger, self.odds)

    def least_in_band(self, bits: int) -> int:
        """How many bits of a band must agree if all are legible."""
        return _least((1,) * bits, self.band_forger, self.odds_in_band(bits))


DEFAULT_FLOORS = Floors()


def _held(
    matches: npt.NDArray[np.bool_], weights: npt.NDArray[np.int64], forger: float, odds: float
) -> tuple[float, float]:
    """The weighted share of bits that match, and the least share required."""
    total = int(weights.sum())
    if not total:
        return 0.0, 1.0
    least = _least(tuple(np.sort(weights).tolist()), forger, odds)
    return float(weights[matches].sum()) / total, least / total


@lru_cache(maxsize=4096)
def _least(weights: tuple[int, ...], forger: float, odds: float) -> int:
    """The least sum that a forger reaches with probability at most ``odds``, or more than all."""
    tail = soft_tail(np.array(weights), forger)
    enough = np.flatnonzero(tail <= odds)
    return int(enough[0]) if len(enough) else sum(weights) + 1

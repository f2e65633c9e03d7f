"""The answer of verification, and what makes it accepted: a p-value, floors, a registry.

The p-value covers unmarked pictures, whose bits match like fair coins. A floor is a second test
against forgers: similar pictures have similar codes, so each bit of a forgery agrees with some
probability. Bits that the decoder cannot read do not count toward a floor.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_sdk.frames import Frame
from coverlock_sdk.locking.readings import Reading
from coverlock_sdk.locking.statistics import Rule, soft_tail

CHANCE = 0.01
"""Unmarked pictures often reach p-values above this, however many bits match."""

STEPS = 12
"""Steps of legibility that floors distinguish; coarse, so that results can be cached."""

SHORT_BAND = 16
"""Shorter bands are coarse: a floor that keeps a forger out would require all of their bits."""

SHORT_ODDS = 2.5
"""Factor for a forger's odds in a short band, so that one bit may be wrong."""


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


@dataclass(frozen=True)
class Verdict:
    """Whether a picture carries a message, and how sure that is.

    A verdict is true if it accepts, so ``if locked.verify(...)`` works as it reads.
    """

    accepted: bool
    p_value: float
    """Probability that an unmarked picture does as well, corrected for all that was tried."""
    matches: int
    """Bits of the message that were read correctly."""
    bits: int
    fpr: float
    """The requested false-positive rate: a picture is accepted only if ``p_value <= fpr``."""
    rule: Rule
    agreement: float = 0.0
    """The share of the message that was read, weighing bits by their legibility, in the band that
    is nearest to its floor."""
    floor: float = 0.0
    """The agreement needed in that band, whatever the p-value. It limits forgeries between similar
    pictures, whose codes agree in more than half of their bits."""
    likeness: float | None = None
    """With a registry, the share of the remembered code that agrees, in its worst band."""
    frame: Frame | None = None
    """Which part of the original the picture shows; None when rejected."""
    key_id: str | None = None
    """Which key of the ring the picture was marked with; None when rejected, or without keys."""
    reason: str | None = None
    """Why the picture was rejected, if the figures do not say."""

    @classmethod
    def on(
        cls, reading: Reading, fpr: float, rule: Rule, floors: Floors, comparisons: float
    ) -> Verdict:
        """Judge one reading; ``comparisons`` is how many messages and keys were tried."""
        p_value = reading.corrected(rule, comparisons)
        agreement, floor = floors.tightest(reading, rule)
        likeness = reading.likeness
        accepted = p_value <= fpr and agreement >= floor
        reason = None
        if accepted and likeness is not None and not likeness.accepted:
            accepted, reason = False, "it is not the picture that the registry remembers"
        return cls(
            accepted=accepted,
            p_value=p_value,
            matches=int(reading.matches.sum()),
            bits=len(reading.matches),
            fpr=fpr,
            rule=rule,
            agreement=agreement,
            floor=floor,
            likeness=None if likeness is None else likeness.least,
            frame=reading.frame if accepted else None,
            key_id=reading.key.id if accepted and reading.key else None,
            reason=reason,
        )

    def __bool__(self) -> bool:
        return self.accepted

    @property
    def is_close(self) -> bool:
        """Whether a small change of the logits could turn this verdict around."""
        times, apart = 1000.0, 0.04
        if self.accepted:
            return self.p_value * times > self.fpr or self.agreement < self.floor + apart
        return self.p_value <= self.fpr * times and self.agreement >= self.floor - apart

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain JSON values."""
        frame = None if self.frame is None else self.frame._asdict()
        return {**asdict(self), "frame": frame}

    def __str__(self) -> str:
        answer = "accepted" if self.accepted else "rejected"
        short = f", agreement {self.agreement:.2f} of {self.floor:.2f}" if self._falls_short else ""
        part = f", {self.frame}" if self.frame is not None and not self.frame.is_whole else ""
        why = f": {self.reason}" if self.reason else ""
        noise = not self.accepted and self.p_value > CHANCE
        evidence = "no better than chance" if noise else f"{self.matches} of {self.bits} bits"
        return (
            f"{answer}: {evidence}, p = {self.p_value:.2g} "
            f"({self.rule} rule, FPR {self.fpr:g}{short}{part}){why}"
        )

    @property
    def _falls_short(self) -> bool:
        """Whether the picture was rejected only because of its agreement."""
        return self.p_value <= self.fpr and self.agreement < self.floor

"""Reading one picture in one frame under one salt: which bits agree, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Bits, Floats, Logits
from coverlock_sdk.calibration import Calibration
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.frames import WHOLE, Frame
from coverlock_sdk.locking.keys import Key
from coverlock_sdk.locking.registry import Likeness
from coverlock_sdk.locking.statistics import (
    Rule,
    Weights,
    corrected,
    hard_p_value,
    soft_p_value,
    soft_weights,
)


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

    def corrected(self, rule: Rule, comparisons: float) -> float:
        """The p-value, corrected for ``comparisons`` and for what this reading itself costs."""
        return corrected(self.p_value(rule), comparisons * self.tries)

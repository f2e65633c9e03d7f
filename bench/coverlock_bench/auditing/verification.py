"""What verification sees in pictures: both rules from one look, and errors told apart."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_bench.auditing.settings import Setting
from coverlock_sdk import ProtectedWatermark, Watermark
from coverlock_sdk.errors import WeakMarkWarning
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.locking.verdict import RULES, Rule

Picture8 = npt.NDArray[np.uint8]
Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Seen:
    """What one picture showed to verification."""

    accepted: dict[Rule, bool]
    matches: int
    bits: int
    payload_errors: int | None = None
    """Bits that the decoder read differently from what was embedded, before the lock is undone."""
    hash_errors: int | None = None
    """Bits in which the picture's code is not the code that was embedded; None without a lock."""
    score: float | None = None
    """How genuine a filter finds the picture, where the defence has one."""
    carried: dict[Rule, bool] | None = None
    """Whether the message was found, whatever the filter's score."""

    @property
    def payload_accuracy(self) -> float | None:
        """The share of the embedded payload that the decoder reads."""
        return None if self.payload_errors is None else 1 - self.payload_errors / self.bits

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain JSON values."""
        return asdict(self)


class Verifier:
    """A watermark behind one defence, asked under every rule at once."""

    def __init__(self, watermark: Watermark, defense: Setting, fpr: float) -> None:
        self.by_rule: Mapping[Rule, ProtectedWatermark] = {
            rule: defense.defense(fpr=fpr, rule=rule).protect(watermark) for rule in RULES
        }
        self.protected = self.by_rule[RULES[-1]]

    def mark(self, picture: Picture8, message: Bits) -> tuple[Picture8, Bits | None]:
        """The marked picture, and the code its payload was bound to where that is known."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakMarkWarning)  # weak marks are what TPR counts
            if isinstance(self.protected, LockedWatermark):
                marked = self.protected.mark(picture, message)
                return marked.picture, marked.code
            return self.protected.embed([picture], message)[0], None

    def examine(
        self, pictures: Sequence[Picture8], message: Bits, codes: Sequence[Bits | None]
    ) -> list[Seen]:
        """What verification says of ``pictures`` that should, or should not, carry ``message``."""
        if isinstance(self.protected, LockedWatermark):
            return examine(self.protected, pictures, message, codes)
        judged = {rule: p.verify(list(pictures), message) for rule, p in self.by_rule.items()}
        scores = self.protected.scores(list(pictures))
        looks = []
        for row in range(len(pictures)):
            verdicts = {rule: judged[rule][row] for rule in RULES}
            looks.append(
                Seen(
                    accepted={rule: bool(verdict.accepted) for rule, verdict in verdicts.items()},
                    matches=verdicts[RULES[0]].matches,
                    bits=verdicts[RULES[0]].bits,
                    score=None if scores is None else float(scores[row]),
                    carried={rule: v.p_value <= v.fpr for rule, v in verdicts.items()},
                )
            )
        return looks


def examine(
    protected: LockedWatermark,
    pictures: Sequence[Picture8],
    message: Bits,
    codes: Sequence[Bits | None],
) -> list[Seen]:
    """Judge ``pictures`` under both rules from one pass of decoder and hash.

    ``codes`` are those that were embedded; against them the errors of payload and hash are counted.
    """
    decoded, hashed = protected.logits(list(pictures))
    key, lock = protected.keys[0], protected.format
    payloads = (lock.log_odds(decoded) > 0).astype(np.uint8)
    seen_codes = lock.code(hashed, key)
    looks = []
    for row, reading in enumerate(lock.readings(decoded, hashed, key)):
        code = codes[row]
        payload_errors = hash_errors = None
        if code is not None:
            payload_errors = int((payloads[row] != message ^ code).sum())
            if protected.hash is not None:
                hash_errors = int((seen_codes[row] != code).sum())
        looks.append(
            Seen(
                accepted={r: reading.p_value(message, r) <= protected.fpr for r in RULES},
                matches=int((reading.bits == message).sum()),
                bits=len(message),
                payload_errors=payload_errors,
                hash_errors=hash_errors,
            )
        )
    return looks

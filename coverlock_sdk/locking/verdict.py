"""What verification answers; ``Lock`` decides it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from coverlock_sdk.frames import Frame

Rule = Literal["hard", "soft"]
RULES: tuple[Rule, ...] = get_args(Rule)
CHANCE = 0.01
"""Unmarked pictures often reach p-values above this, whatever the number of bits that match."""


@dataclass(frozen=True)
class Verdict:
    """Whether a picture carries a message, and how sure that is.

    A verdict is true exactly when it is accepted, so ``if locked.verify(...)`` does what it says.
    """

    accepted: bool
    p_value: float
    """Probability that an unmarked picture does as well, corrected for all that was tried."""
    matches: int
    """Bits of the message that were read correctly."""
    bits: int
    fpr: float
    """The false-positive rate that was asked for: accepted needs ``p_value <= fpr``."""
    rule: Rule
    agreement: float = 0.0
    """The share of the message that was read, bits weighed by how legible they are, in the band of
    the code where it is nearest to its floor."""
    floor: float = 0.0
    """The agreement that a locked picture needs there, whatever its p-value: it bounds forgeries
    between pictures that are similar, whose codes agree in more than half of their bits."""
    likeness: float | None = None
    """With a registry, the share of the remembered code that agrees, in its worst band."""
    frame: Frame | None = None
    """Which part of the original the picture shows; None when rejected."""
    key_id: str | None = None
    """Which key of the ring the picture was marked with; None when rejected, or without keys."""
    reason: str | None = None
    """Why it was rejected, where the figures do not say."""

    def __bool__(self) -> bool:
        return self.accepted

    @property
    def is_close(self) -> bool:
        """Whether a small change of the picture's logits might have made it the other one."""
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
        """Whether the agreement alone is why the picture was rejected."""
        return self.p_value <= self.fpr and self.agreement < self.floor

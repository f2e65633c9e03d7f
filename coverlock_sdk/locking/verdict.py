"""The answer of verification, which ``Lock`` decides."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from coverlock_sdk.frames import Frame

Rule = Literal["hard", "soft"]
RULES: tuple[Rule, ...] = get_args(Rule)
CHANCE = 0.01
"""Unmarked pictures often reach p-values above this, however many bits match."""


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

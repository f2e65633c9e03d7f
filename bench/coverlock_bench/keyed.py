"""CoverLock as a vendor with a key runs it, so that audits can set it beside the keyless lock."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import ClassVar

from coverlock_sdk import CoverLock, Defense, Key, LockedWatermark, Watermark
from coverlock_sdk.locking.coverlock import DEFAULT_FPR, DEFAULT_RULE
from coverlock_sdk.locking.verdict import Rule


@dataclass(frozen=True)
class KeyedCoverLock(Defense):
    """CoverLock with a made-up key, which attackers do not have."""

    name: ClassVar[str] = "coverlock-keyed"

    fpr: float = DEFAULT_FPR
    rule: Rule = DEFAULT_RULE
    seed: int = 0
    """Makes another key."""

    def protect(self, watermark: Watermark) -> LockedWatermark:
        """Put ``watermark`` behind the lock and the key."""
        key = key_of("scheme 2", self.seed)
        return CoverLock(key=key, fpr=self.fpr, rule=self.rule).protect(watermark)


def key_of(scheme: str, seed: int = 0) -> Key | None:
    """The key of a made-up vendor; ``seed`` makes another."""
    if scheme == "keyless":
        return None
    secret = hashlib.sha256(f"a key of the bench/{seed}".encode()).digest()
    return Key(secret, id="bench", created="", scheme=int(scheme[-1]))

"""Randomised keys: each picture is marked under one of several keys, drawn at random.

A rival of the lock (arXiv 2507.07871). A picture is accepted only if exactly one key finds its
message: a pattern that was averaged over pictures of several keys shows several, and is refused. A
residual taken from a single picture shows just one key, and passes; the lock is for that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from coverlock_sdk.arrays import Bits
from coverlock_sdk.contract import Defense, ProtectedWatermark, Watermark
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.hookspecs import Register, hookimpl
from coverlock_sdk.images.conversion import Given
from coverlock_sdk.locking.coverlock import DEFAULT_FPR, NoDefense
from coverlock_sdk.locking.keys import Key, codeword
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.locking.statistics import corrected
from coverlock_sdk.locking.verdict import Rule, Verdict


@dataclass(frozen=True)
class RandomKeys(Defense):
    """Several keys, one of them a picture, and no picture under two."""

    name: ClassVar[str] = "random-keys"

    keys: int = 4
    fpr: float = DEFAULT_FPR
    rule: Rule = "soft"
    seed: int = 0
    """Decides the keys, and which of them marks a picture."""

    def protect(self, watermark: Watermark) -> RandomKeysWatermark:
        """Give ``watermark`` several keys."""
        if self.keys < 1:
            raise CoverLockError(f"pictures are marked under at least one key, not {self.keys}")
        secrets = [hashlib.sha256(f"{self.seed}/{k}".encode()).digest() for k in range(self.keys)]
        keys = [Key(secret, id=str(k)) for k, secret in enumerate(secrets)]
        bare = NoDefense(self.fpr, self.rule).protect(watermark)
        return RandomKeysWatermark(bare, keys, self.seed)


class RandomKeysWatermark(ProtectedWatermark):
    """A watermark whose message is another one under each key."""

    def __init__(self, bare: LockedWatermark, keys: Sequence[Key], seed: int) -> None:
        self.watermark, self._bare = bare.watermark, bare
        self._keys, self._seed = keys, seed

    @property
    def bits(self) -> int:
        """Length of a message."""
        return self._bare.bits

    @property
    def fpr(self) -> float:
        """Probability with which an unmarked picture may be accepted."""
        return self._bare.fpr

    def embed(self, pictures: Any, messages: Any) -> Any:
        """Mark each picture under a key that is drawn for it."""
        given = Given(pictures)
        wanted = self._bare.lock.messages(messages, len(given))
        drawn = [
            int.from_bytes(hashlib.sha256(picture.layers().tobytes()).digest()[:8], "big")
            for picture in given
        ]
        keys = [self._keys[(number + self._seed) % len(self._keys)] for number in drawn]
        locked = [self._under(message, key) for message, key in zip(wanted, keys, strict=True)]
        return self._bare.embed(pictures, locked[0] if given.single else np.array(locked))

    def decode(self, pictures: Any) -> Any:
        """Return the logits (N, bits) of the payloads that ``pictures`` seem to carry."""
        return self._bare.decode(pictures)

    def verify(self, pictures: Any, messages: Any) -> Any:
        """Accept a picture that shows its message under exactly one key."""
        given = Given(pictures)
        logits = self._bare.logits(pictures)
        wanted = self._bare.lock.messages(messages, len(given))
        by_key = [
            self._bare.lock.verify(*logits, np.array([self._under(m, key) for m in wanted]))
            for key in self._keys
        ]
        verdicts = [self._joined(tries) for tries in zip(*by_key, strict=True)]
        self._bare.announce(verdicts, given)
        return verdicts[0] if given.single else verdicts

    def _joined(self, tries: Sequence[Verdict]) -> Verdict:
        best = min(tries, key=lambda verdict: verdict.p_value)
        p_value = corrected(best.p_value, len(tries))
        found = sum(corrected(v.p_value, len(tries)) <= self.fpr for v in tries)
        return replace(best, p_value=p_value, accepted=found == 1)

    def _under(self, message: str | Bits, key: Key) -> Bits:
        """What stands for a message under a key: an identifier's codeword, or masked bits."""
        if isinstance(message, str):
            return codeword(message, key, self.bits)
        return message ^ codeword("bits", key, self.bits)


@hookimpl
def register_defenses(register: Register) -> None:
    """Offer the defence under its name."""
    register(RandomKeys)

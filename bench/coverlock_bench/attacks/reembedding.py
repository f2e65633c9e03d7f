"""Attacks with the vendor's own encoder and decoder, which anyone has if the library is public.

Each attack works out which payload a target should carry, and has the encoder embed it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from coverlock_bench.photos import Picture8, to_8_bit, to_float
from coverlock_sdk import ImageHash, LockedWatermark, NetworkAttack, NoDefense, Watermark, wrap
from coverlock_sdk.arrays import Bits, Images
from coverlock_sdk.loading import DEFAULT_HASH

ANY_FPR = 0.5
"""The attacker marks and reads; the vendor verifies."""


class ByEncoder(NetworkAttack):
    """Embeds the payloads that a subclass works out."""

    given: ClassVar[Literal["encoder", "decoder"]] = "encoder"

    @abstractmethod
    def payloads(
        self, watermark: Watermark, references: Sequence[Picture8], targets: Sequence[Picture8]
    ) -> Bits:
        """The payload (N, bits) that each target should carry."""

    def forge(self, references: Images, targets: Images, *, watermark: Watermark) -> Images:
        """Embed twice: marking changes the hash, so the second payload fits the marked target."""
        released, wanted = ([to_8_bit(view) for view in views] for views in (references, targets))
        bare, forged = bare_watermark(watermark), wanted
        for _ in range(2):
            forged = bare.embed(wanted, self.payloads(watermark, released, forged))
        return np.stack([to_float(picture) for picture in forged])


@dataclass(frozen=True)
class ReEmbedding(ByEncoder):
    """Copies the payload of a released picture bit by bit."""

    name: ClassVar[str] = "re-embedding"

    def payloads(
        self, watermark: Watermark, references: Sequence[Picture8], targets: Sequence[Picture8]
    ) -> Bits:
        """The payload of the first reference, for every target."""
        return np.repeat(read_payloads(watermark, references[:1]), len(targets), axis=0)


@dataclass(frozen=True)
class ReLocking(ByEncoder):
    """Knows CoverLock: undoes the lock of a released picture and locks its message to the target.

    It assumes that there is no key; against a key, it reads noise.
    """

    name: ClassVar[str] = "re-locking"

    hash: str | ImageHash = field(default=DEFAULT_HASH, repr=False)
    """That of the lock."""

    def payloads(
        self, watermark: Watermark, references: Sequence[Picture8], targets: Sequence[Picture8]
    ) -> Bits:
        """The message of the first reference under the keyless code of each target."""
        lock = wrap(watermark, hash=self.hash, fpr=ANY_FPR)
        messages: Bits = (lock.decode(list(references[:1])) > 0).astype(np.uint8)
        terms = lock.lock.terms(messages[0], None)
        _, described = lock.logits(targets)
        codes = [lock.lock.code(description, terms, salt=0) for description in described]
        return np.stack([lock.lock.payload(terms.message, code) for code in codes])


AGAINST_LOCKS = (ReLocking.name,)
"""Attacks that only make sense against CoverLock."""


def bare_watermark(watermark: Watermark) -> LockedWatermark:
    """The vendor's own encoder and decoder, for pictures of any size."""
    return NoDefense(fpr=ANY_FPR).protect(watermark)


def read_payloads(watermark: Watermark, pictures: Sequence[Picture8]) -> Bits:
    """The bits (N, bits) that the vendor's decoder reads from pictures."""
    payloads: Bits = (bare_watermark(watermark).decode(list(pictures)) > 0).astype(np.uint8)
    return payloads

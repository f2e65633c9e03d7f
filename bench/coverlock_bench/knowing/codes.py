"""Released pictures as the attacker sees them, and the vendor who released them: codes alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from coverlock_sdk import Key
from coverlock_sdk.arrays import Bits, Floats, Logits
from coverlock_sdk.locking.calibration import Calibration
from coverlock_sdk.locking.judging import Judge
from coverlock_sdk.locking.keyed_codes import salt_count
from coverlock_sdk.locking.keys import Keyring
from coverlock_sdk.locking.lock_format import LockFormat
from coverlock_sdk.locking.verdict import Verdict

PAYLOAD_ERROR = 0.01
"""Share of payload bits that the simulated decoder reads wrongly; MBRS does better."""

SURE = Calibration(scale=float(np.log(1 / PAYLOAD_ERROR - 1)), power=1.0)
"""What a simulated decoder logit of -1 or 1 is worth."""


@dataclass(frozen=True)
class Released:
    """What anyone sees of released pictures: hash logits (N, 256) and payloads (N, bits)."""

    hashed: Logits
    payloads: Bits

    @property
    def signs(self) -> Floats:
        """Payload bits as -1 and 1."""
        return 2 * self.payloads.astype(np.float64) - 1

    @property
    def directions(self) -> Floats:
        """Hash logits of length one."""
        return directions(self.hashed)

    @property
    def salts(self) -> int:
        """How many salts scheme 2 has for payloads of this length, which is public."""
        return salt_count(self.payloads.shape[1])


def directions(hashed: Logits) -> Floats:
    """Hash logits of length one: only their signs under some rotation ever count."""
    unit: Floats = hashed / np.linalg.norm(hashed, axis=1, keepdims=True)
    return unit.astype(np.float64)


class CodeAttack(Protocol):
    """Works out which payload (T, bits) each of T targets should carry."""

    def payloads(self, released: Released, targets: Logits, rng: np.random.Generator) -> Bits:
        """The payloads for pictures whose hash logits are ``targets`` (T, 256)."""
        ...


@dataclass(frozen=True)
class Vendor:
    """Marks and verifies codes with the lock itself; only the watermark is simulated."""

    judge: Judge

    @classmethod
    def of(
        cls, key: Key | None, bits: int, hash: Calibration, fpr: float, kind: type[Judge] = Judge
    ) -> Vendor:
        """A vendor whose watermark carries ``bits`` bits."""
        layout = LockFormat(bits, SURE, hash)
        return cls(kind(layout, Keyring([key]) if key else None, fpr, "soft"))

    def release(self, hashed: Logits, identifier: str, rng: np.random.Generator) -> Released:
        """Pictures marked with ``identifier``, each under the salt that the embedder draws."""
        terms = self.judge.terms(identifier, self.judge.keys[0])
        layout, payloads = self.judge.format, []
        for row in hashed:
            salt = layout.stablest_salt(row[None], terms.code_map)
            code = layout.code(row[None], terms.code_map, salt)
            payloads.append(layout.payload(terms.message[None], code)[0])
        return Released(hashed, misread(np.stack(payloads), rng))

    def verify(
        self, payloads: Bits, hashed: Logits, identifier: str, rng: np.random.Generator
    ) -> list[Verdict]:
        """What the vendor says of pictures into which the public encoder put ``payloads``."""
        seen = 2 * misread(payloads, rng).astype(np.float32) - 1
        return self.judge.verify(seen, hashed, [identifier] * len(hashed))


def misread(payloads: Bits, rng: np.random.Generator) -> Bits:
    """Payloads as a decoder reads them: a few bits are wrong."""
    wrong = rng.random(payloads.shape) < PAYLOAD_ERROR
    return (payloads ^ wrong).astype(np.uint8)

"""CoverLock itself: the payload is the message XOR a code of the picture that carries it.

A pasted residual brings the payload to the other picture, but not the code (paper, section 4).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from coverlock_sdk.contract import Defense, ImageHash, Watermark
from coverlock_sdk.loading import DEFAULT_HASH, load_hash, load_watermark
from coverlock_sdk.locking.embedding import ROUNDS, Binder
from coverlock_sdk.locking.keys import as_keyring
from coverlock_sdk.locking.lock import Lock
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.locking.registry import Registry, as_registry
from coverlock_sdk.locking.statistics import Rule
from coverlock_sdk.locking.verdict import DEFAULT_FLOORS, Floors
from coverlock_sdk.plugin_calls import Networks

DEFAULT_FPR = 1e-6


def wrap(
    watermark: str | Any,
    key: Any = None,
    hash: str | ImageHash = DEFAULT_HASH,
    fpr: float = DEFAULT_FPR,
    psnr: float | None = None,
    registry: str | Path | Registry | None = None,
) -> LockedWatermark:
    """Lock a watermark to its pictures.

    ``watermark`` is the name of a plugin or your own object, ``key`` a ``Key``, a ``Keyring`` or
    the path of a key file, and ``hash`` the image hash to lock with. ``fpr`` is how often an
    unmarked picture may be accepted. ``psnr`` is the quality of marked pictures in decibels;
    without it, marks are as strong as their vendor made them. ``registry`` names a file that
    remembers marked pictures: with it, verification accepts only those.

    Without a key, the lock stops only attackers who do not know about it, as in the paper.
    """
    defense = CoverLock(hash, key, fpr, psnr=psnr, registry=registry)
    return defense.protect(load_watermark(watermark))


@dataclass(frozen=True)
class CoverLock(Defense):
    """The paper's defence: bind the payload to the picture by XOR with its code."""

    name: ClassVar[str] = "coverlock"

    hash: str | ImageHash = DEFAULT_HASH
    key: Any = field(default=None, repr=False)
    fpr: float = DEFAULT_FPR
    rule: Rule = "soft"
    rounds: int = ROUNDS
    """How often a picture may be marked until its code settles; the paper marks it once."""
    harden: bool = True
    """Whether to change marked pictures slightly so that distortions do not change their code."""
    psnr: float | None = None
    """PSNR of marked pictures in decibels; None leaves marks as strong as they are."""
    floors: Floors = DEFAULT_FLOORS
    registry: str | Path | Registry | None = None

    def protect(self, watermark: Watermark) -> LockedWatermark:
        """Put ``watermark`` behind the lock."""
        image_hash = load_hash(self.hash)
        lock = Lock(
            watermark.bits,
            watermark.calibration,
            image_hash,
            as_keyring(self.key),
            self.fpr,
            self.rule,
            self.floors,
            as_registry(self.registry),
        )
        networks = Networks(watermark, image_hash)
        binder = Binder(networks, lock, self.psnr, harden=self.harden, rounds=self.rounds)
        return LockedWatermark(watermark, binder)


@dataclass(frozen=True)
class NoDefense(Defense):
    """The baseline: the vendor's watermark without a lock, verified with the same statistics."""

    name: ClassVar[str] = "none"

    fpr: float = DEFAULT_FPR
    rule: Rule = "soft"
    psnr: float | None = None

    def protect(self, watermark: Watermark) -> LockedWatermark:
        """Give ``watermark`` messages and verdicts, and nothing more."""
        lock = Lock(watermark.bits, watermark.calibration, None, None, self.fpr, self.rule)
        return LockedWatermark(watermark, Binder(Networks(watermark, None), lock, self.psnr))

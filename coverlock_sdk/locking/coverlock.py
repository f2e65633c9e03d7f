"""CoverLock itself: the payload is the message XOR a code of the picture that carries it.

A residual pasted onto another picture brings the payload but not the code, so what is read
there is noise. Section 4 of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from coverlock_sdk.contract import Defense, ImageHash, Watermark
from coverlock_sdk.loading import DEFAULT_HASH, load_hash, load_watermark
from coverlock_sdk.locking.binding import Binder
from coverlock_sdk.locking.hardening import Hardener
from coverlock_sdk.locking.judging import Judge
from coverlock_sdk.locking.keys import as_keyring
from coverlock_sdk.locking.lock_format import LockFormat
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.locking.verdict import Rule
from coverlock_sdk.plugin_calls import Networks

DEFAULT_RULE: Rule = "soft"
DEFAULT_FPR = 1e-6
DEFAULT_ROUNDS = 4


def wrap(
    watermark: str | Any,
    hash: str | ImageHash = DEFAULT_HASH,
    key: Any = None,
    fpr: float = DEFAULT_FPR,
    rule: Rule | None = None,
    harden: bool = True,
    psnr: float | None = None,
    floor: float | None = None,
    crowd: str | Path | None = None,
) -> LockedWatermark:
    """Lock a watermark to its pictures.

    ``watermark`` is the name of a plugin or an object of your own; ``key`` a ``Key``, a
    ``Keyring`` or the path of a key file (without one the lock has no secret); ``fpr`` the
    probability with which an unmarked picture may be accepted; ``rule`` "hard" (count matching
    bits, as the paper does) or "soft" (weigh them by confidence), None for the default. With
    ``harden``, embedding takes about twice as long and costs up to half a decibel, and the mark
    survives distortions better; verification does not change. ``psnr`` is how good marked pictures
    should be, in decibels: the mark is made weaker or stronger for it. Without it a mark is as
    strong as its vendor made it. ``floor`` is the share of the message that must be read whatever
    the p-value; under the soft rule bits weigh as much as the decoder is sure of them. A higher
    one stops more forgers who have the weights of the hash, and more cropped pictures. None is the
    default, which is higher with a key. Each picture is compared
    with those that the lock was given before, to tell where a forgery between them would be
    accepted; ``crowd`` names a file that keeps their codes, made if it is not there.
    """
    rule = rule or DEFAULT_RULE
    defense = CoverLock(hash, key, fpr, rule, harden=harden, psnr=psnr, floor=floor, crowd=crowd)
    return defense.protect(load_watermark(watermark))


@dataclass(frozen=True)
class CoverLock(Defense):
    """The paper's defence: bind the payload to the picture by XOR with its hash."""

    name: ClassVar[str] = "coverlock"

    hash: str | ImageHash = DEFAULT_HASH
    key: Any = field(default=None, repr=False)
    fpr: float = DEFAULT_FPR
    rule: Rule = DEFAULT_RULE
    rounds: int = DEFAULT_ROUNDS
    """How often a picture may be marked anew until its code settles; 1 is the paper's way."""
    harden: bool = True
    """Whether marked pictures are moved a little so that distortions do not move their code."""
    psnr: float | None = None
    """Decibels that marked pictures should have; None leaves a mark as strong as it is."""
    floor: float | None = None
    """The least agreement of an accepted picture; None is the default of the rule."""
    crowd: str | Path | None = None
    """The file that keeps the codes of one's own pictures; None forgets them with the lock."""

    def protect(self, watermark: Watermark) -> LockedWatermark:
        """Put ``watermark`` behind the lock."""
        image_hash = load_hash(self.hash)
        hardener = Hardener(image_hash) if self.harden else None
        layout = LockFormat(watermark.bits, watermark.calibration, image_hash.calibration)
        judge = Judge(layout, as_keyring(self.key), self.fpr, self.rule, self.floor)
        networks = Networks(watermark, image_hash)
        binder = Binder(networks, judge, self.rounds, hardener, self.psnr, self.crowd)
        return LockedWatermark(watermark, image_hash, binder)


@dataclass(frozen=True)
class NoDefense(Defense):
    """The watermark as its vendor made it, verified by the same statistics: the thing to beat."""

    name: ClassVar[str] = "none"

    fpr: float = DEFAULT_FPR
    rule: Rule = DEFAULT_RULE
    psnr: float | None = None

    def protect(self, watermark: Watermark) -> LockedWatermark:
        """Give ``watermark`` messages and verdicts, and nothing more."""
        layout = LockFormat(watermark.bits, watermark.calibration, None)
        judge = Judge(layout, None, self.fpr, self.rule)
        binder = Binder(Networks(watermark, None), judge, psnr=self.psnr)
        return LockedWatermark(watermark, None, binder)

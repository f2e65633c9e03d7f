"""Released pictures themselves, marked by a real watermark and kept from one run to the next."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coverlock_bench.knowing.codes import CodeAttack, Released
from coverlock_bench.photos import Picture8, to_8_bit, to_float
from coverlock_sdk.arrays import Bits, Images
from coverlock_sdk.errors import WeakMarkWarning
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.plugin_calls import embed
from coverlock_sdk.progress import progress

SAVE_EVERY = 50


@dataclass(frozen=True)
class Album:
    """Released pictures with their originals, and what anyone reads of them."""

    originals: list[Picture8]
    marked: list[Picture8]
    seen: Released

    def first(self, count: int) -> Album:
        """An album of fewer pictures."""
        seen = Released(self.seen.hashed[:count], self.seen.payloads[:count])
        return Album(self.originals[:count], self.marked[:count], seen)

    @property
    def residuals(self) -> Images:
        """What marking added to each picture (N, 3, H, W)."""
        pairs = zip(self.marked, self.originals, strict=True)
        return np.stack([to_float(marked) - to_float(original) for marked, original in pairs])


def release(lock: LockedWatermark, originals: list[Picture8], identifier: str, kept: Path) -> Album:
    """``originals`` marked with ``identifier``; ``kept`` names all that they depend on."""
    marked = list(np.load(kept)) if kept.exists() else []
    kept.parent.mkdir(parents=True, exist_ok=True)
    for original in progress(originals[len(marked) :], kept.stem):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakMarkWarning)
            marked.append(lock.mark(original, identifier).picture)
        if len(marked) % SAVE_EVERY == 0 or len(marked) == len(originals):
            np.save(kept, np.stack(marked))
    marked = marked[: len(originals)]
    decoded, hashed = lock.logits(marked)
    return Album(originals, marked, Released(hashed, (decoded > 0).astype(np.uint8)))


def forge(
    lock: LockedWatermark, attack: CodeAttack, album: Album, targets: list[Picture8]
) -> list[Picture8]:
    """Targets into which the public encoder puts what ``attack`` says that they should carry.

    The mark moves the hash a little, so the attacker asks once more about the marked target.
    """
    views = np.stack([to_float(target) for target in targets])
    forged = targets
    for _ in range(2):
        payloads = predicted(lock, attack, album, forged)
        forged = embedded(lock, views, payloads)
    return forged


def embedded(lock: LockedWatermark, views: Images, payloads: Bits) -> list[Picture8]:
    """Pictures into which the public encoder puts ``payloads``, saved."""
    return [to_8_bit(view) for view in embed(lock.watermark, views, payloads)]


def predicted(
    lock: LockedWatermark, attack: CodeAttack, album: Album, targets: list[Picture8]
) -> Bits:
    """The payloads that ``attack`` works out for ``targets``."""
    return attack.payloads(album.seen, lock.logits(targets)[1], np.random.default_rng(0))

"""What hardening gives away to those who also have the originals.

Hardening pushes a picture along the few directions of its salt in which its logits are near zero.
Whoever has the original embeds the payload anew, and what else has changed is that push. Many
sparse sums of the same directions give the directions away: they are the rotation under which the
sums are sparsest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from coverlock_bench.knowing.codes import Released, directions
from coverlock_sdk import Key
from coverlock_sdk.arrays import Bits, Floats, Logits
from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.locking.hardening import Hardening
from coverlock_sdk.locking.judging import Judge
from coverlock_sdk.locking.keyed_codes import GROUPS, Rotation, SaltedMap
from coverlock_sdk.locking.lock_format import LockFormat


class OneRotation(Judge):
    """Locks as keys of scheme 2 would if all salts of an identifier shared one rotation."""

    def _identifier_map(self, key: Key, identifier: str) -> SaltedMap:
        code_map = super()._identifier_map(key, identifier)
        first = Rotation(code_map.turns.signs[:1], code_map.turns.shuffles[:1])
        return replace(code_map, turns=first, groups=code_map.groups % GROUPS)


@dataclass(frozen=True)
class HardeningPushes:
    """Sees the push of every released picture exactly, and learns directions from all of them.

    It is told salts, selections and pads, and of each direction which of those it found comes
    nearest: a bound on attackers, not one of them.
    """

    layout: LockFormat
    code_map: SaltedMap
    steps: int = 200

    def payloads(self, released: Released, targets: Logits, rng: np.random.Generator) -> Bits:
        """Marks as the vendor would, by the directions that were found."""
        truth = self.code_map.seen(np.eye(CODE_BITS, dtype=np.float32))  # (256, places)
        found = sparsest_rotation(self._pushes(released, truth), self.steps, rng)
        likeness = found @ truth
        nearest = np.abs(likeness).argmax(axis=0)
        trusted = likeness[nearest, np.arange(len(nearest))]
        rotated = (directions(targets) @ found[nearest].T * trusted).astype(np.float32)
        return np.stack([self._payload(row) for row in rotated])

    def _pushes(self, released: Released, truth: Logits) -> Floats:
        """What hardening adds to the logits of each picture (N, 256), of length one."""
        pushes = []
        for hashed in released.hashed:
            salt = self.layout.stablest_salt(hashed[None], self.code_map)
            own = truth[:, self.code_map.places(salt)]
            logits = hashed @ own
            margin = Hardening().margin * np.sqrt(np.square(hashed).mean())
            pushes.append(own @ (np.sign(logits) * np.maximum(margin - np.abs(logits), 0)))
        return directions(np.stack(pushes) + np.finfo(np.float32).tiny)

    def _payload(self, rotated: Logits) -> Bits:
        salt = self.code_map.stablest(rotated[None])
        bits = (rotated[self.code_map.places(salt)] > 0).astype(np.uint8)
        return bits ^ self.code_map.mask(salt)


def sparsest_rotation(sums: Floats, steps: int, rng: np.random.Generator) -> Floats:
    """The rotation (D, D) whose rows ``sums`` (N, D) are the sparsest mixtures of.

    Sparse coordinates have large fourth powers. Each step goes to the rotation that is nearest to
    the gradient of their sum (Zhai et al., JMLR 2020).
    """
    rotation = np.linalg.qr(rng.standard_normal((sums.shape[1], sums.shape[1])))[0]
    for _ in range(steps):
        left, _, right = np.linalg.svd(((rotation @ sums.T) ** 3) @ sums)
        rotation = left @ right
    return np.asarray(rotation, dtype=np.float64)

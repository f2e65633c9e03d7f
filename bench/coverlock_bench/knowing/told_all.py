"""A bound on every learner: told all secrets of scheme 2 but its rotations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coverlock_bench.knowing.codes import Released, directions
from coverlock_bench.knowing.linear import ridge
from coverlock_sdk.arrays import Bits, Floats, Logits
from coverlock_sdk.locking.keyed_codes import SaltedMap
from coverlock_sdk.locking.lock_format import LockFormat


@dataclass(frozen=True)
class ToldAllButRotations:
    """Is told the salt of every picture, all selections and all pads. Nobody has these.

    What such an attacker cannot do from so many pictures, no attacker who must find them out can.
    """

    layout: LockFormat
    code_map: SaltedMap
    penalty: float = 0.5

    def payloads(self, released: Released, targets: Logits, rng: np.random.Generator) -> Bits:
        """Learns each rotated logit from all salts that use it, then marks as the vendor would."""
        rotated = directions(targets) @ self._rotations(released)
        return np.stack([self._payload(row) for row in rotated])

    def _rotations(self, released: Released) -> Floats:
        """The rotations (256, turns * 256) as far as the pictures tell."""
        places = self.code_map.seen(released.hashed[:1]).shape[1]
        shown = np.zeros((len(released.hashed), places))  # -1 or 1 where a payload shows a logit
        for row, hashed in enumerate(released.hashed):
            salt = self.layout.stablest_salt(hashed[None], self.code_map)
            bits = released.payloads[row] ^ self.code_map.mask(salt)
            shown[row, self.code_map.places(salt)] = 2.0 * bits - 1
        columns = []
        for column in shown.T:
            known = column != 0
            signs = column[known, None]
            columns.append(ridge(released.directions[known], signs, self.penalty)[:, 0])
        return np.stack(columns, axis=1)

    def _payload(self, rotated: Floats) -> Bits:
        salt = self.code_map.stablest(rotated[None].astype(np.float32))
        bits = (rotated[self.code_map.places(salt)] > 0).astype(np.uint8)
        return bits ^ self.code_map.mask(salt)

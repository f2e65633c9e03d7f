"""The attacker who can compute codes: anyone where there is no key, or whoever stole it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coverlock_bench.knowing.codes import Released
from coverlock_sdk.arrays import Bits, Logits
from coverlock_sdk.locking.judging import Judge


@dataclass(frozen=True)
class KnownMap:
    """Has the map of codes and one released picture: reads its message, and locks it elsewhere."""

    judge: Judge
    identifier: str

    def payloads(self, released: Released, targets: Logits, rng: np.random.Generator) -> Bits:
        """The message of the first released picture under the code of each target.

        A salted map needs no released picture: its message is known, and the stablest salt is best.
        """
        layout = self.judge.format
        _, code_map, message, _ = self.judge.terms(self.identifier, self.judge.keys[0])
        if code_map.salts == 1:
            message = released.payloads[0] ^ layout.code(released.hashed[:1], code_map)[0]
        codes = [
            layout.code(row[None], code_map, layout.stablest_salt(row[None], code_map))
            for row in targets
        ]
        return np.concatenate([layout.payload(message[None], code) for code in codes])

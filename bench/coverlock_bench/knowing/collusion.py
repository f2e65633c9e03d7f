"""Collusion: many customers pool their pictures, then take one picture of a victim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coverlock_bench.knowing.codes import Released
from coverlock_sdk.arrays import Bits, Logits


@dataclass(frozen=True)
class Collusion:
    """Has the decoder, two or more pictures of each of many identifiers, and one of a victim's.

    What two pictures of one identifier differ in does not depend on the identifier, so all pairs
    tell of the same map, if all identifiers share one.
    """

    pools: Sequence[Released]

    def payloads(self, released: Released, targets: Logits, rng: np.random.Generator) -> Bits:
        """The victim's payload, moved from the code of their picture to that of each target."""
        agreement = np.zeros((released.payloads.shape[1], released.hashed.shape[1]))
        for pool in self.pools:
            signs, hashes = pool.signs, np.where(pool.hashed > 0, 1.0, -1.0)
            for other in range(1, len(signs)):
                agreement += np.outer(signs[0] * signs[other], hashes[0] * hashes[other])
        place = agreement.argmax(axis=1)
        moved = (targets[:, place] > 0) ^ (released.hashed[:1, place] > 0)
        return released.payloads[:1] ^ moved.astype(np.uint8)

"""Re-embedding: read the bits of a released picture and embed them elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coverlock_bench.knowing.codes import Released, directions
from coverlock_sdk.arrays import Bits, Logits


@dataclass(frozen=True)
class Reembedding:
    """Has decoder, encoder and released pictures.

    Takes the released picture whose public hash is most like that of the target; the first one
    that comes to hand where ``nearest`` is false.
    """

    nearest: bool = True

    def payloads(self, released: Released, targets: Logits, rng: np.random.Generator) -> Bits:
        """The payload of one released picture for each target."""
        if not self.nearest:
            return released.payloads[rng.integers(len(released.payloads), size=len(targets))]
        likeness = directions(targets) @ released.directions.T
        return released.payloads[likeness.argmax(axis=1)]

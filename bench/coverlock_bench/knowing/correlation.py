"""Key recovery by counting: which public hash bit does each payload bit follow?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coverlock_bench.knowing.codes import Released
from coverlock_sdk.arrays import Bits, Logits


@dataclass(frozen=True)
class Correlation:
    """Has the decoder and released pictures of one identifier."""

    def payloads(self, released: Released, targets: Logits, rng: np.random.Generator) -> Bits:
        """Each payload bit from the one hash bit that it agreed, or disagreed, with most often."""
        agreement = released.signs.T @ np.where(released.hashed > 0, 1.0, -1.0)  # (bits, 256)
        place = np.abs(agreement).argmax(axis=1)
        sign = np.sign(agreement[np.arange(len(place)), place])
        return (sign * targets[:, place] > 0).astype(np.uint8)

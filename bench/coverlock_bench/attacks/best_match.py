"""Best match: of many released pictures, transplant from the one that resembles the target most.

The hash is public, so an attacker computes it for every released picture and every target. The
residual itself is the true one, so that what is measured is the lock and not the estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from coverlock_bench.attacks.averaging import REFERENCES
from coverlock_sdk import OracleAttack, load_hash
from coverlock_sdk.arrays import Images
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.loading import DEFAULT_HASH
from coverlock_sdk.plugin_calls import hash_logits


@dataclass(frozen=True)
class BestMatch(OracleAttack):
    """Each target gets the residual of the reference whose public features are nearest."""

    name: ClassVar[str] = "best-match"

    hash: str = DEFAULT_HASH
    references: int = REFERENCES
    """How many marked pictures there are to choose from."""

    def forge(self, references: Images, targets: Images, *, originals: Images) -> Images:
        """Add to every target the residual of its best match."""
        chosen = self.choose(references, targets)
        return np.clip(targets + references[chosen] - originals[chosen], 0.0, 1.0)

    def choose(self, references: Images, targets: Images) -> npt.NDArray[np.int64]:
        """For every target, the row of the reference that matches it best."""
        if not len(references):
            raise CoverLockError("there is no released picture to choose from")
        image_hash = load_hash(self.hash)
        there, here = (
            _unit(hash_logits(image_hash, pictures)) for pictures in (references, targets)
        )
        return np.argmax(here @ there.T, axis=1)


def _unit(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    length = np.linalg.norm(logits, axis=1, keepdims=True)
    unit: npt.NDArray[np.float32] = logits / np.maximum(length, 1e-12)
    return unit

"""Same scene: what an attacker can do who stays with the picture that was marked.

The hash is made to survive change, so it survives an attacker's change as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from coverlock_sdk import Attack
from coverlock_sdk.arrays import Images
from coverlock_sdk.errors import CoverLockError


@dataclass(frozen=True)
class PastedObject(Attack):
    """Tampering with the marked picture itself: a piece of the target is pasted into it."""

    name: ClassVar[str] = "pasted-object"

    area: float = 0.1
    """The share of the picture that an ellipse replaces."""
    centre: tuple[float, float] = (0.5, 0.5)
    """Where it is, in shares of height and width."""

    def forge(self, references: Images, targets: Images) -> Images:
        """Each reference with an ellipse of the target of the same row."""
        if len(references) != len(targets):
            raise CoverLockError(
                f"an object is pasted from each target into one reference, but there are "
                f"{len(targets)} targets and {len(references)} references"
            )
        height, width = references.shape[-2:]
        return np.where(self.covered(height, width), targets, references)

    def covered(self, height: int, width: int) -> npt.NDArray[np.bool_]:
        """Where the ellipse is, which has the picture's proportions: (height, width)."""
        down = (np.arange(height) + 0.5) / height - self.centre[0]
        right = (np.arange(width) + 0.5) / width - self.centre[1]
        inside: npt.NDArray[np.bool_] = np.hypot(down[:, None], right) < np.sqrt(self.area / np.pi)
        return inside

"""GT@s: transplant the true residual, averaged over s marked pictures (section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coverlock_sdk import CoverLockError, OracleAttack
from coverlock_sdk.arrays import Images


@dataclass(frozen=True)
class GroundTruthResidual(OracleAttack):
    """An oracle: it subtracts the originals, so no real attacker has a better estimate."""

    name: ClassVar[str] = "gt"

    sources: int = 1
    """How many residuals to average; the paper uses GT@1 and GT@100."""

    @property
    def references(self) -> int:  # type: ignore[override]
        """The number of released pictures: one per residual."""
        return self.sources

    def forge(self, references: Images, targets: Images, *, originals: Images) -> Images:
        """Add the mean residual of the first ``sources`` references to every target."""
        if len(references) < self.sources or len(originals) < self.sources:
            raise CoverLockError(
                f"GT@{self.sources} needs {self.sources} marked pictures and their originals, "
                f"but there are {min(len(references), len(originals))}"
            )
        residual = (references[: self.sources] - originals[: self.sources]).mean(axis=0)
        return np.clip(targets + residual, 0.0, 1.0)

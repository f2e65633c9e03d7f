"""Averaging (Yang et al. 2024): the mark is what many marked pictures have in common.

The attack averages marked pictures of the same message until their contents wash out, and
subtracts the average of natural pictures.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from coverlock_bench.attacks.residuals import first, pasted
from coverlock_sdk import Attack
from coverlock_sdk.arrays import Images
from coverlock_sdk.images.resampling import resample

REFERENCES = 100
"""How many marked pictures a well-supplied attacker has, as in the paper's section 5."""


@dataclass(frozen=True)
class AveragedResidual(Attack):
    """Black-box: compares marked pictures with unrelated natural ones, which anybody has."""

    name: ClassVar[str] = "averaging"

    naturals: Images = field(repr=False)
    """The attacker's own unmarked pictures (N, 3, H, W), as many as there are references."""
    references: int = REFERENCES

    def forge(self, references: Images, targets: Images) -> Images:
        """Add the difference of the two averages to every target."""
        size = (references.shape[-2], references.shape[-1])
        naturals = resample(first(self.naturals, self.references, "natural"), size)
        marked = first(references, self.references)
        return pasted(marked.mean(axis=0) - naturals.mean(axis=0), targets)

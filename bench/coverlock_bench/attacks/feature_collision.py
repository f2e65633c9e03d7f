"""Feature collision: change the target until its hash is the source's, then transplant.

The hash is public and differentiable, and no keyed choice of its bits differs where all of them
agree. The price is a change of the target, within a budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coverlock_bench.attacks.averaging import REFERENCES
from coverlock_bench.attacks.best_match import BestMatch
from coverlock_sdk import OracleAttack
from coverlock_sdk.arrays import Images
from coverlock_sdk.errors import needs
from coverlock_sdk.loading import DEFAULT_HASH

if TYPE_CHECKING:
    from torch import Tensor

    from coverlock_bench.adaptive.white_box import WhiteBox

TOGETHER = 16
"""Pictures that are attacked at once; more would only cost memory."""


@dataclass(frozen=True)
class FeatureCollision(OracleAttack):
    """Projected gradient descent on the target, towards its best match among the references.

    The residual is the true one, as for ``BestMatch``; marks and changes add up in the target.
    """

    name: ClassVar[str] = "feature-collision"

    budget: float = 4.0
    """The largest change of a value, in grey levels of 255."""
    least_psnr: float | None = None
    """A budget in decibels instead: the change may be anywhere, as long as its sum is small."""
    steps: int = 25
    first_step: float = 0.25
    """In units of the budget; later ones shrink to nothing."""
    margin: float = 0.3
    """How far beyond zero a logit is pushed, in units of the mean magnitude."""
    hash: str = DEFAULT_HASH
    known: WhiteBox | None = None
    """What is attacked, where that is more than the public hash ``hash``."""
    bits: tuple[int, ...] | None = None
    """The code bits that matter, for an attacker who knows them: there is no key."""
    seed: int = 0
    references: int = REFERENCES
    """How many marked pictures there are to choose from."""

    def forge(self, references: Images, targets: Images, *, originals: Images) -> Images:
        """Every target, changed and with the residual of its best match."""
        with needs("this attack", "PyTorch", "torch"):
            from coverlock_bench.adaptive import white_box
        known = self.known or white_box.white_box(self.hash)
        chosen = BestMatch(self.hash).choose(references, targets)
        residuals = references[chosen] - originals[chosen]
        changed = np.empty_like(targets)
        for start in range(0, len(targets), TOGETHER):
            rows = slice(start, start + TOGETHER)
            pasted = targets[rows] + residuals[rows]
            changed[rows] = pasted + self._collide(known, pasted, references[chosen[rows]], start)
        return np.clip(changed, 0.0, 1.0)

    def _collide(self, known: WhiteBox, pasted: Images, sources: Images, start: int) -> Images:
        """The change of ``pasted``, within the budget, that brings codes nearest the sources'.

        Steps that grow smaller. A bit counts until it has the source's sign and some
        margin, so that no effort goes into bits that agree already.
        """
        import torch

        space = Peak(self.budget / 255) if self.least_psnr is None else Energy(self.least_psnr)
        here, there = torch.from_numpy(pasted), torch.from_numpy(sources)
        chosen = list(self.bits) if self.bits is not None else slice(None)
        change = torch.zeros_like(here, requires_grad=True)
        for step in range(self.steps):
            seed = [self.seed, start, step]  # both are seen through the same guesses
            with torch.no_grad():
                aim = known.logits(there, np.random.default_rng(seed))[:, chosen]
            seen = known.logits((here + change).clamp(0, 1), np.random.default_rng(seed))[:, chosen]
            lacking = torch.relu(self.margin * aim.abs().mean() - seen * aim.sign())
            [gradient] = torch.autograd.grad(lacking.sum(), change)
            with torch.no_grad():
                moved = change - self.first_step * (1 - step / self.steps) * space.stride(gradient)
                change.copy_(space.within(moved))
        found: Images = change.detach().numpy()
        return found


@dataclass(frozen=True)
class Peak:
    """Changes of no value by more than ``limit``."""

    limit: float

    def stride(self, gradient: Tensor) -> Tensor:
        """As far as the budget goes, downhill."""
        return self.limit * gradient.sign()

    def within(self, change: Tensor) -> Tensor:
        """The nearest change that the budget allows."""
        return change.clamp(-self.limit, self.limit)


@dataclass(frozen=True)
class Energy:
    """Changes that leave a picture at ``least_psnr`` decibels or more."""

    least_psnr: float

    def stride(self, gradient: Tensor) -> Tensor:
        """As far as the budget goes, downhill."""
        return self._limit / _root_mean_square(gradient) * gradient

    def within(self, change: Tensor) -> Tensor:
        """The nearest change that the budget allows."""
        return change * (self._limit / _root_mean_square(change)).clamp(max=1)

    @property
    def _limit(self) -> float:
        """The root mean square of a change with that PSNR, for values in [0, 1]."""
        return float(10 ** (-self.least_psnr / 20))


def _root_mean_square(values: Tensor) -> Tensor:
    return values.square().mean(dim=(1, 2, 3), keepdim=True).sqrt().clamp_min(1e-12)

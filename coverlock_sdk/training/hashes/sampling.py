"""Which pictures make up a batch of training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from coverlock_sdk.training.hashes.views import Rows

Sampler = Callable[[int, np.random.Generator], Rows]
"""Draws the rows of a batch of the size it is told."""


@dataclass(frozen=True)
class Uniform:
    """Any ``count`` pictures, each at most once."""

    count: int

    def __call__(self, batch: int, rng: np.random.Generator) -> Rows:
        """Rows of pictures drawn alike."""
        return rng.choice(self.count, min(batch, self.count), replace=False)


@dataclass(frozen=True)
class WithGroups:
    """Photos, and whole groups of pictures that are hard to tell apart.

    The first ``photos`` rows are photos; the others are groups of ``together`` rows.
    """

    photos: int
    groups: int
    together: int
    share: float = 0.5
    """How much of a batch the groups make up."""

    def __call__(self, batch: int, rng: np.random.Generator) -> Rows:
        """Rows of photos, then those of every group drawn."""
        drawn = min(self.groups, round(batch * self.share / self.together))
        single = min(self.photos, batch - drawn * self.together)
        first = rng.choice(self.groups, drawn, replace=False) * self.together + self.photos
        members = (first[:, None] + np.arange(self.together)).ravel()
        return np.concatenate([rng.choice(self.photos, single, replace=False), members])

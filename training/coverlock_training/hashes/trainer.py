"""Training of a head: cached features in, a run folder with checkpoint and curves out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from coverlock_plugins.dinov2.head import HashHead
from coverlock_training.hashes.features import CachedFeatures
from coverlock_training.hashes.losses import Objective
from coverlock_training.loop import Figures, Schedule, Training


class HashTraining(Training[HashHead, Tensor]):
    """Steps on batches whose first half is clean and whose second half is distorted.

    ``measure`` is asked for figures at each checkpoint.
    """

    def __init__(
        self,
        head: HashHead,
        data: CachedFeatures,
        objective: Objective,
        schedule: Schedule,
        folder: Path,
        measure: Callable[[HashHead], Figures] | None = None,
        bfloat16: bool = False,
    ) -> None:
        super().__init__(head, schedule, folder, bfloat16)
        self.data, self.objective, self.measure = data, objective, measure

    def draw(self, step: int, rng: np.random.Generator) -> Tensor:
        """Both views of a batch of photos, no photo twice unless there are fewer."""
        count, batch = len(self.data), self.schedule.batch
        rows = rng.choice(count, batch, replace=count < batch)
        return torch.cat(self.data.pairs(rows, rng))

    def learn(self, batch: Tensor) -> Figures:
        """One step on the sum of the objective's terms."""
        with self.autocast():
            embedding = self.model.embed(batch.to(self.device)).float()
        logits = self.model.logits_of(embedding)
        terms = self.objective.terms(*embedding.chunk(2), *logits.chunk(2))
        self.descend(terms["total"])
        clean, distorted = logits.detach().chunk(2)
        flipped = ((clean > 0) != (distorted > 0)).float().mean().item()
        return {"flipped": flipped, **{name: term.item() for name, term in terms.items()}}

    def validate(self) -> Figures:
        """What the caller wants to know."""
        return self.measure(self.model) if self.measure else {}

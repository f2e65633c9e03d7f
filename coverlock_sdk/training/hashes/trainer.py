"""Training of a hash: pictures in, a run folder with checkpoint and curves out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from coverlock_sdk.hashing.network import Backbone, HashHead, HashNetwork
from coverlock_sdk.training.hashes.adversary import Adversary
from coverlock_sdk.training.hashes.losses import Objective
from coverlock_sdk.training.hashes.sampling import Sampler, Uniform
from coverlock_sdk.training.hashes.views import Pairs
from coverlock_sdk.training.loop import Figures, Report, Schedule, Training

Hasher = HashNetwork | HashHead
"""What is trained: a whole network on pictures, or a head alone on features."""


def train(
    model: Hasher,
    data: Pairs,
    objective: Objective,
    schedule: Schedule,
    folder: Path,
    frozen: Backbone | None = None,
    validate: Callable[[Hasher], Figures] | None = None,
    report: Report | None = None,
    bfloat16: bool = False,
    sampler: Sampler | None = None,
    adversary: Adversary | None = None,
) -> Hasher:
    """Optimise ``model`` on pairs of views and return the weights to keep.

    A ``frozen`` backbone turns the views into the features that a head learns from; it is no
    part of the run. An interrupted run goes on from ``folder``. A ``sampler`` decides which
    pictures make up a batch, and an ``adversary`` attacks some of them, through the backbone.
    """
    training = HashTraining(model, data, objective, schedule, folder, bfloat16)
    training.frozen, training.measure, training.adversary = frozen, validate, adversary
    training.sampler = sampler or training.sampler
    return training.run(report)


class HashTraining(Training[Hasher, Tensor]):
    """Steps on batches whose first half is clean and whose second half is distorted."""

    frozen: Backbone | None = None
    measure: Callable[[Hasher], Figures] | None = None
    adversary: Adversary | None = None

    def __init__(
        self,
        model: Hasher,
        data: Pairs,
        objective: Objective,
        schedule: Schedule,
        folder: Path,
        bfloat16: bool,
    ) -> None:
        super().__init__(model, schedule, folder, bfloat16)
        self.data, self.objective = data, objective
        self.sampler: Sampler = Uniform(len(data))

    def draw(self, step: int, rng: np.random.Generator) -> Tensor:
        """Both views of the pictures that the sampler chooses."""
        return torch.cat(self.data.pairs(self.sampler(self.schedule.batch, rng), rng))

    def learn(self, batch: Tensor) -> Figures:
        """One step on the sum of the objective's terms."""
        inputs = batch.to(self.device)
        if self.adversary is not None:
            rng = np.random.default_rng([self.schedule.seed, self.step, 1])
            self.model.eval()
            with self.autocast():
                inputs = self.adversary.attacked(self._logits, inputs, rng)
            self.model.train()
        if self.frozen is not None:
            with torch.no_grad(), self.autocast():
                inputs = self.frozen.eval()(inputs).float()
        with self.autocast():
            embedding = self.model.embed(inputs).float()
        logits = self.model.logits_of(embedding)
        terms = self.objective.terms(*embedding.chunk(2), *logits.chunk(2))
        self.descend(terms["total"])
        clean, distorted = logits.detach().chunk(2)
        flipped = ((clean > 0) != (distorted > 0)).float().mean().item()
        return {"flipped": flipped, **{name: term.item() for name, term in terms.items()}}

    def _logits(self, pictures: Tensor) -> Tensor:
        """What the hash makes of pictures, through the frozen backbone if there is one."""
        inputs = pictures if self.frozen is None else self.frozen.eval()(pictures).float()
        logits: Tensor = self.model(inputs)
        return logits

    def validate(self) -> Figures:
        """What the caller wants to know of the averaged weights."""
        return self.measure(self.averaged) if self.measure else {}

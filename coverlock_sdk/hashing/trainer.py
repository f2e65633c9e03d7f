"""Training of a hash: pictures in, a run folder with weights, curves and figures out.

What step t draws depends on the seed and on t alone, so a run that was interrupted and resumed
from its checkpoint is the run that was not.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from coverlock_sdk.hashing.adversary import Adversary
from coverlock_sdk.hashing.losses import Objective
from coverlock_sdk.hashing.network import Backbone, HashHead, HashNetwork
from coverlock_sdk.hashing.sampling import Sampler, Uniform
from coverlock_sdk.hashing.views import Pairs
from coverlock_sdk.training_run import Checkpoint, Figures, History, ResumableRun

Hasher = HashNetwork | HashHead
"""What is trained: a whole network on pictures, or a head alone on features."""


@dataclass(frozen=True)
class Schedule:
    """How long and how fast; the defaults are the paper's (appendix B.3)."""

    steps: int = 200_000
    batch: int = 256
    rate: float = 3e-5
    weight_decay: float = 0.01
    warmup: int = 0
    """The first steps, over which the rate rises to its full value."""
    decay: int = 0
    """The last steps, over which the rate falls to zero."""
    averaging: float = 0.0
    """Decay of the moving average of the weights, which is what is kept; 0: the last weights."""
    seed: int = 0
    record_every: int = 500
    """Steps between two checkpoints, each with a validation."""

    def rate_at(self, step: int) -> float:
        """The learning rate of a step: warm-up, constant, decay."""
        rise = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        fall = min(1.0, (self.steps - step) / self.decay) if self.decay else 1.0
        return self.rate * rise * fall


@dataclass
class Run(ResumableRun):
    """Everything a run needs to go on: weights, their average, optimiser, curves."""

    model: Hasher
    averaged: Hasher
    optimizer: torch.optim.AdamW
    history: History
    step: int = 0

    @classmethod
    def start(cls, model: Hasher, schedule: Schedule) -> Run:
        """A run at step zero."""
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=schedule.rate, weight_decay=schedule.weight_decay)
        return cls(model, copy.deepcopy(model), optimizer, History())

    @property
    def parts(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"model": self.model, "averaged": self.averaged, "optimizer": self.optimizer}


def train(
    model: Hasher,
    data: Pairs,
    objective: Objective,
    schedule: Schedule,
    folder: Path,
    frozen: Backbone | None = None,
    validate: Callable[[Hasher], Figures] | None = None,
    report: Callable[[int, Figures], None] | None = None,
    half: bool = False,
    sampler: Sampler | None = None,
    adversary: Adversary | None = None,
) -> Hasher:
    """Optimise ``model`` on pairs of views and return the weights to keep.

    A ``frozen`` backbone turns the views into the features that a head learns from; it is no
    part of the run. ``folder`` receives ``checkpoint.pt``, from which a later call goes on, and
    ``history.json``. A loss that is not finite stops the run and says where it was. ``half``
    computes embeddings in bfloat16, which is twice as fast where the processor has it. A
    ``sampler`` decides which pictures make up a batch, and an ``adversary`` attacks some of them;
    only a whole network can be attacked.
    """
    folder.mkdir(parents=True, exist_ok=True)
    run = Run.start(model, schedule)
    run.load(folder)
    device = next(model.parameters()).device
    choose = sampler or Uniform(len(data))

    def draw(step: int) -> Tensor:
        rng = np.random.default_rng([schedule.seed, step])
        return torch.cat(data.pairs(choose(schedule.batch, rng), rng))

    with ThreadPoolExecutor(1) as ahead:
        upcoming = ahead.submit(draw, run.step)
        while run.step < schedule.steps:
            inputs = upcoming.result().to(device)
            upcoming = ahead.submit(draw, run.step + 1)
            if frozen is not None:
                inputs = _features(frozen, inputs, half)
            if adversary is not None and isinstance(run.model, HashNetwork):
                rng = np.random.default_rng([schedule.seed, run.step, 1])
                with torch.autocast(device.type, torch.bfloat16, enabled=half):
                    inputs = adversary.attacked(run.model, inputs, rng)
            figures = _step(run, inputs, objective, schedule, folder, half)
            run.history.steps.append({"step": run.step, **figures})
            run.step += 1
            if report:
                report(run.step, figures)
            if run.step % schedule.record_every == 0 or run.step == schedule.steps:
                if validate:
                    run.averaged.eval()
                    run.history.validation.append({"step": run.step, **validate(run.averaged)})
                    if report:
                        report(run.step, run.history.validation[-1])
                run.save(folder)
    return run.averaged.eval()


@torch.no_grad()
def _features(frozen: Backbone, images: Tensor, half: bool) -> Tensor:
    """What a head sees of a batch of pictures."""
    with torch.autocast(images.device.type, torch.bfloat16, enabled=half):
        features: Tensor = frozen.eval()(images).float()
    return features


def _step(
    run: Run, inputs: Tensor, objective: Objective, schedule: Schedule, folder: Path, half: bool
) -> Figures:
    """One step of AdamW on a batch whose first half is clean and second half distorted."""
    rate = schedule.rate_at(run.step)
    for group in run.optimizer.param_groups:
        group["lr"] = rate
    run.model.train()
    with torch.autocast(inputs.device.type, torch.bfloat16, enabled=half):
        embedding = run.model.embed(inputs).float()
    logits = run.model.logits_of(embedding)
    terms = objective.terms(*embedding.chunk(2), *logits.chunk(2))
    checkpoint = Checkpoint(folder / "checkpoint.pt")
    checkpoint.require_finite(terms["total"], run.step, rate)
    run.optimizer.zero_grad(set_to_none=True)
    terms["total"].backward()  # type: ignore[no-untyped-call]
    norm = nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
    checkpoint.require_finite(norm, run.step, rate, of="gradient")
    run.optimizer.step()
    _average(run.averaged, run.model, min(schedule.averaging, (1 + run.step) / (10 + run.step)))
    clean, distorted = logits.detach().chunk(2)
    flipped = ((clean > 0) != (distorted > 0)).float().mean().item()
    return {"rate": rate, "flipped": flipped, **{name: t.item() for name, t in terms.items()}}


@torch.no_grad()
def _average(averaged: nn.Module, model: nn.Module, decay: float) -> None:
    """Move the averaged weights towards the current ones."""
    current = model.state_dict()
    for name, value in averaged.state_dict().items():
        if value.is_floating_point():
            value.lerp_(current[name], 1 - decay)
        else:
            value.copy_(current[name])

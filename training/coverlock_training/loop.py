"""The training loop of the SDK: hashes, watermarks and filters all use it.

What step t draws depends on the seed and on t alone, so a run that was interrupted and resumed
from its checkpoint is the run that was not.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.models.checkpoints import read_checkpoint

Figures = dict[str, float]
Report = Callable[[int, Figures], None]
"""Told the step, and what was measured there."""

Model = TypeVar("Model", bound=nn.Module)
Batch = TypeVar("Batch")
Settings = TypeVar("Settings")


@dataclass(frozen=True)
class Schedule:
    """How long and how fast; the defaults are the paper's for its hash (appendix B.3)."""

    steps: int = 200_000
    batch: int = 256
    rate: float = 3e-5
    weight_decay: float = 0.01
    warmup: int = 0
    """The first steps, over which the rate rises to its full value."""
    decay: int = 0
    """The last steps, over which the rate falls to zero."""
    seed: int = 0
    record_every: int = 500
    """Steps between two checkpoints, each with a validation."""
    curve_every: int = 1
    """Steps between two points of the curves."""

    def rate_at(self, step: int) -> float:
        """The learning rate of a step: warm-up, constant, decay."""
        rise = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        fall = min(1.0, (self.steps - step) / self.decay) if self.decay else 1.0
        return self.rate * rise * fall

    def optimizer_of(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        """What follows the gradients of ``parameters``."""
        return torch.optim.AdamW(parameters, weight_decay=self.weight_decay)


@dataclass
class History:
    """The curves of a run: what was measured on the way, and at each validation."""

    steps: list[Figures] = field(default_factory=list)
    validation: list[Figures] = field(default_factory=list)


class Training(ABC, Generic[Model, Batch]):
    """A run of one model, with curves, that resumes from ``checkpoint.pt`` in its folder.

    A subclass says what a step draws and learns; ``measure`` is asked for figures at each
    checkpoint. With ``bfloat16``, what it computes under ``autocast`` is twice as fast where the
    processor has it.
    """

    def __init__(
        self,
        model: Model,
        schedule: Schedule,
        folder: Path,
        measure: Callable[[Model], Figures] | None = None,
        bfloat16: bool = False,
    ) -> None:
        self.model, self.schedule, self.bfloat16 = model, schedule, bfloat16
        self.measure = measure
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimizer = schedule.optimizer_of(trained)
        self.device = next(model.parameters()).device
        self.checkpoint = folder / "checkpoint.pt"
        self.history, self.step = History(), 0

    @abstractmethod
    def draw(self, step: int, rng: np.random.Generator) -> Batch:
        """What ``step`` learns from; called ahead of time, in a thread of its own."""

    @abstractmethod
    def learn(self, batch: Batch) -> Figures:
        """Take a step and return what was measured on the way; ``descend`` does most of it."""

    def validate(self) -> Figures:
        """What is measured at each checkpoint."""
        return self.measure(self.model) if self.measure else {}

    def notes(self) -> dict[str, Any]:
        """Plain values for a checkpoint to keep besides."""
        return {}

    def recall(self, notes: dict[str, Any]) -> None:
        """Take up the notes of a checkpoint; there are none at the beginning."""

    def run(self, report: Report | None = None) -> Model:
        """Take the steps that are left and return the model, ready for use.

        The folder receives ``checkpoint.pt``, from which a later run goes on, and
        ``history.json``. A loss that is not finite stops the run and says where it was.
        """
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        self.recall(self._load())
        report = report or (lambda step, figures: None)
        with ThreadPoolExecutor(1) as ahead:
            upcoming = ahead.submit(self._drawn, self.step)
            while self.step < self.schedule.steps:
                batch: Any = upcoming.result()
                upcoming = ahead.submit(self._drawn, self.step + 1)
                figures = self._learned(batch)
                self.step += 1
                report(self.step, figures)
                done = self.step == self.schedule.steps
                if done or self.step % self.schedule.record_every == 0:
                    self._record(report)
        return self.model.eval()

    def descend(self, loss: Tensor) -> None:
        """Follow the gradient of ``loss``, clipped to length 1; stop if it is not finite."""
        self._require_finite(loss, "loss")
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(self.optimizer.param_groups[0]["params"], 1.0)
        self._require_finite(norm, "gradient")
        self.optimizer.step()

    def autocast(self) -> torch.autocast:
        """Within it, networks compute in bfloat16 if that was asked for."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16)

    def refusal(self) -> CoverLockError:
        """What to raise when the checkpoint belongs to another run."""
        return CoverLockError(f"{self.checkpoint} was made with other settings: name another run")

    def _save(self) -> None:
        """Write the checkpoint, whole or not at all, and the curves as JSON beside it."""
        curves = vars(self.history)  # a copy of a long history takes longer than to write it
        states = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        unfinished = self.checkpoint.with_suffix(".part")
        torch.save({**states, "step": self.step, "history": curves, **self.notes()}, unfinished)
        unfinished.replace(self.checkpoint)
        self.checkpoint.with_name("history.json").write_text(json.dumps(curves))

    def _load(self) -> dict[str, Any]:
        """Go on from the checkpoint if there is one, and return its notes."""
        if not self.checkpoint.exists():
            return {}
        notes: dict[str, Any] = read_checkpoint(self.checkpoint)
        try:
            self.model.load_state_dict(notes.pop("model"))
            self.optimizer.load_state_dict(notes.pop("optimizer"))
        except (KeyError, RuntimeError, ValueError) as error:
            raise self.refusal() from error
        self.history, self.step = History(**notes.pop("history")), notes.pop("step")
        return notes

    def _require_finite(self, value: Tensor, what: str) -> None:
        """Stop the run when its loss, or the norm of its gradient, is not a number; say where."""
        if torch.isfinite(value):
            return
        last = f"the last checkpoint is {self.checkpoint}"
        raise CoverLockError(
            f"the {what} is {value.item()} at step {self.step}, learning rate "
            f"{self.optimizer.param_groups[0]['lr']:.3g}; "
            + (last if self.checkpoint.exists() else "there is no checkpoint yet")
        )

    def _drawn(self, step: int) -> Batch | None:
        if step >= self.schedule.steps:
            return None
        return self.draw(step, np.random.default_rng([self.schedule.seed, step]))

    def _learned(self, batch: Batch) -> Figures:
        """Take one step at its rate, and remember now and then what was measured."""
        rate = self.schedule.rate_at(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.model.train()
        figures = {"rate": rate, **self.learn(batch)}
        if self.step % self.schedule.curve_every == 0:
            self.history.steps.append({"step": self.step, **figures})
        return figures

    def _record(self, report: Report) -> None:
        """Measure the model, and write a checkpoint."""
        self.model.eval()
        figures = self.validate()
        if figures:
            self.history.validation.append({"step": self.step, **figures})
            report(self.step, figures)
        self._save()


def adjusted(settings: Settings, **changes: Any) -> Settings:
    """A dataclass with those of ``changes`` that are not None."""
    given = {name: value for name, value in changes.items() if value is not None}
    return replace(settings, **given)  # type: ignore[type-var]


def require_device(name: str) -> torch.device:
    """The device called ``name``, if tensors can be made and read there."""
    try:
        torch.zeros(1, device=name).item()
    except (RuntimeError, AssertionError, ImportError) as error:
        raise CoverLockError(
            f"nothing can be trained on {name!r} here: name a device that PyTorch can use on this "
            "machine, cpu or cuda"
        ) from error
    return torch.device(name)

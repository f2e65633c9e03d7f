"""What every training run of the SDK shares: checkpoints, resuming, curves, and when to stop."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coverlock_sdk.errors import CoverLockError

Figures = dict[str, float]


@dataclass
class History:
    """The curves of a run: what was measured at every step, and at each validation."""

    steps: list[Figures] = field(default_factory=list)
    validation: list[Figures] = field(default_factory=list)


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


class Checkpoint:
    """A file that a run can go on from; it is written whole or not at all."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def save(self, parts: Mapping[str, Any], step: int, **plain: Any) -> None:
        """Write the state of ``parts`` (networks, optimisers) and plain values beside it."""
        states = {name: part.state_dict() for name, part in parts.items()}
        unfinished = self.file.with_suffix(".part")
        torch.save({**states, "step": step, **plain}, unfinished)
        unfinished.replace(self.file)

    def load(self, parts: Mapping[str, Any], **expected: Any) -> dict[str, Any] | None:
        """Bring ``parts`` back to where they were, and return the rest; None at the beginning.

        Parts that do not fit, and plain values that are not the ``expected`` ones, belong to
        another run.
        """
        if not self.file.exists():
            return None
        state = self.read()
        refusal = CoverLockError(f"{self.file} was made with other settings: name another run")
        if any(state[name] != value for name, value in expected.items()):
            raise refusal
        try:
            for name, part in parts.items():
                part.load_state_dict(state.pop(name))
        except (KeyError, RuntimeError, ValueError) as error:
            raise refusal from error
        return state

    def read(self) -> dict[str, Any]:
        """All that was saved, in memory whatever device it was on."""
        state: dict[str, Any] = torch.load(self.file, map_location="cpu", weights_only=True)
        return state

    def require_finite(self, value: Tensor, step: int, rate: float, of: str = "loss") -> None:
        """Stop a run when its loss, or the norm of its gradient, is not a number; say where."""
        if torch.isfinite(value):
            return
        last = f"the last checkpoint is {self.file}"
        raise CoverLockError(
            f"the {of} is {value.item()} at step {step}, learning rate {rate:.3g}; "
            + (last if self.file.exists() else "there is no checkpoint yet")
        )


class ResumableRun(ABC):
    """A run with curves that goes on from ``checkpoint.pt`` in its folder."""

    history: History
    step: int

    @property
    @abstractmethod
    def parts(self) -> dict[str, Any]:
        """Everything whose state a checkpoint keeps, by name."""

    def save(self, folder: Path, **plain: Any) -> None:
        """Write the checkpoint with ``plain`` values, and the curves as JSON beside it."""
        curves = vars(self.history)  # a copy of a long history takes longer than to write it
        Checkpoint(folder / "checkpoint.pt").save(self.parts, self.step, history=curves, **plain)
        (folder / "history.json").write_text(json.dumps(curves))

    def load(self, folder: Path) -> dict[str, Any]:
        """Go back to the last checkpoint, where there is one, and return its plain values."""
        state = Checkpoint(folder / "checkpoint.pt").load(self.parts) or {}
        if state:
            self.history, self.step = History(**state["history"]), state["step"]
        return state

"""Checkpoints from which a training run resumes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coverlock_sdk.errors import CoverLockError


class Checkpoint:
    """A file from which a run can resume; it is written completely or not at all."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def save(self, parts: Mapping[str, Any], **notes: Any) -> None:
        """Write the state of ``parts`` (networks, optimisers) and plain values beside it."""
        states = {name: part.state_dict() for name, part in parts.items()}
        unfinished = self.file.with_suffix(".part")
        torch.save({**states, **notes}, unfinished)
        unfinished.replace(self.file)

    def load(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        """Bring ``parts`` back to where they were, and return the notes; none at the beginning."""
        if not self.file.exists():
            return {}
        state = self.read()
        try:
            for name, part in parts.items():
                part.load_state_dict(state.pop(name))
        except (KeyError, RuntimeError, ValueError) as error:
            raise self.refusal() from error
        return state

    def read(self) -> dict[str, Any]:
        """All that was saved, in memory whatever device it was on."""
        return torch.load(self.file, map_location="cpu", weights_only=True)

    def refusal(self) -> CoverLockError:
        """What to raise when the file belongs to another run."""
        return CoverLockError(f"{self.file} was made with other settings: name another run")

    def require_finite(self, value: Tensor, what: str, step: int, rate: float) -> None:
        """Stop a run when its loss, or the norm of its gradient, is not a number; say where."""
        if torch.isfinite(value):
            return
        last = f"the last checkpoint is {self.file}"
        raise CoverLockError(
            f"the {what} is {value.item()} at step {step}, learning rate {rate:.3g}; "
            + (last if self.file.exists() else "there is no checkpoint yet")
        )

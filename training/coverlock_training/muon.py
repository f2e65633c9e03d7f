"""Muon (Jordan et al. 2024): momentum whose directions all count alike, for convolution kernels.

A plain step follows the few directions in which a kernel's gradients are large. Here momentum is
made orthogonal first, by five Newton-Schulz iterations, so that rare directions are learned too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

KERNEL_RATE = 20.0
"""How much longer the steps of kernels are: the entries of an orthogonal matrix are small."""
MOMENTUM, MEAN, SQUARE = 0.95, 0.9, 0.999
"""How much stays of a kernel's momentum, and of Adam's two averages."""
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""The authors' quintic, which brings singular values near 1 in five rounds."""


class Muon(torch.optim.Optimizer):
    """Orthogonal momentum for kernels wider than a pixel, AdamW for all other parameters."""

    def __init__(self, parameters: Iterable[nn.Parameter], weight_decay: float = 0.0) -> None:
        super().__init__(parameters, {"lr": 1e-3, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Move every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                kernel = _is_kernel(parameter)
                rate = group["lr"] * (KERNEL_RATE if kernel else 1.0)
                direction = _of_kernel if kernel else _of_adam
                parameter.mul_(1 - rate * group["weight_decay"])
                parameter.sub_(direction(parameter.grad, self.state[parameter]), alpha=rate)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state of its own; that of another optimiser is refused."""
        if any("exp_avg" in state for state in state_dict["state"].values()):
            raise ValueError("this is the state of another optimizer")
        super().load_state_dict(state_dict)


def orthogonal(matrix: Tensor) -> Tensor:
    """The matrix with its singular values brought near 1."""
    wide = matrix if len(matrix) <= matrix.shape[1] else matrix.T
    linear, cubic, quintic = NEWTON_SCHULZ
    unit = wide / wide.norm().clamp_min(1e-7)
    for _ in range(5):
        square = unit @ unit.T
        unit = linear * unit + (cubic * square + quintic * square @ square) @ unit
    return unit if wide is matrix else unit.T


def _is_kernel(parameter: Tensor) -> bool:
    """Whether it maps channels to several channels and looks at more than a pixel."""
    return parameter.ndim == 4 and parameter.shape[0] > 1 and parameter.shape[-1] > 1


def _of_kernel(gradient: Tensor, state: dict[str, Any]) -> Tensor:
    if not state:
        state["momentum"] = torch.zeros_like(gradient)
    momentum = state["momentum"].lerp_(gradient, 1 - MOMENTUM)
    rows = gradient.lerp(momentum, MOMENTUM).flatten(1)
    tall = max(1.0, len(rows) / rows.shape[1]) ** 0.5
    return tall * orthogonal(rows).view_as(gradient)


def _of_adam(gradient: Tensor, state: dict[str, Any]) -> Tensor:
    if not state:
        state |= {"steps": 0, "mean": torch.zeros_like(gradient)}
        state["square"] = torch.zeros_like(gradient)
    state["steps"] += 1
    mean = state["mean"].lerp_(gradient, 1 - MEAN) / (1 - MEAN ** state["steps"])
    square = state["square"].lerp_(gradient.square(), 1 - SQUARE) / (1 - SQUARE ** state["steps"])
    return mean / square.sqrt_().add_(1e-8)

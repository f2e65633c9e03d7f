"""Training against forgers: views that gradients have pushed towards another picture's code.

A forger who has the hash looks for a small change that gives a picture the code of another
(collision), or takes its own code away (evasion). Both are found here by a few steps of projected
gradient descent within an L2 budget, and stand in a batch where a distorted view would: the
objective then asks that the code stays what it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

Network = Callable[[Tensor], Tensor]
"""Pictures (N, 3, H, W) to logits (N, 256), as it is used and not as it is trained."""


@dataclass(frozen=True)
class Adversary:
    """How many views are attacked, how, and with what budget."""

    share: float = 0.2
    among: float = 1.0
    """The first part of a batch, to which attacks are confined: photos come before drawn pictures,
    two of which may differ by less than a forger may change."""
    steps: int = 3
    psnr: tuple[float, float] = (30.0, 40.0)
    """The budget of each view in decibels, drawn from this range."""
    evasion: float = 0.4
    """The share of attacks that only want the code to change."""
    smooth: float = 0.5
    """The share of attacks that are confined to low frequencies."""
    margin: float = 0.3
    """How far beyond zero a logit is pushed, in units of the mean magnitude."""

    def attacked(self, network: Network, inputs: Tensor, rng: np.random.Generator) -> Tensor:
        """A batch (2N, 3, H, W), clean views first, with some distorted views replaced."""
        count, device = len(inputs) // 2, inputs.device
        exposed = round(count * self.among)
        attacks = min(exposed, round(count * self.share))
        rows = torch.from_numpy(rng.choice(exposed, attacks, replace=False))
        decibels = torch.from_numpy(rng.uniform(*self.psnr, len(rows))).float()
        budget = (10 ** (-decibels / 20)).to(device)
        evading = torch.from_numpy(rng.random(len(rows)) < self.evasion).to(device)
        smooth = torch.from_numpy(rng.random(len(rows)) < self.smooth).to(device)
        clean = inputs[rows]
        with torch.no_grad():
            codes = network(clean).sign()
        change = self._change(network, clean, _aims(codes, evading), budget, smooth)
        changed = inputs.clone()
        changed[count + rows] = (clean + change).clamp(0, 1)
        return changed

    def _change(
        self, network: Network, images: Tensor, aims: Tensor, budget: Tensor, smooth: Tensor
    ) -> Tensor:
        """The change of each picture, within its budget, that brings its code nearest the aim."""
        limit = budget.view(-1, 1, 1, 1)
        change = torch.zeros_like(images)
        for step in range(self.steps):
            change.requires_grad_(True)
            logits = network((images + change).clamp(0, 1))
            margin = self.margin * logits.detach().abs().mean()
            lacking = functional.relu(margin - logits * aims).sum()
            [gradient] = torch.autograd.grad(lacking, change)
            low = functional.avg_pool2d(gradient, 9, 1, 4, count_include_pad=False)
            gradient = torch.where(smooth.view(-1, 1, 1, 1), low, gradient)
            stride = limit * (1 - step / self.steps) / _root_mean_square(gradient)
            moved = change.detach() - stride * gradient
            change = moved * (limit / _root_mean_square(moved)).clamp(max=1)
        return change.detach()


def _aims(codes: Tensor, evading: Tensor) -> Tensor:
    """For each code the one to reach: the nearest of the others, or itself inverted."""
    agreement = codes @ codes.T
    nearest = codes[agreement.fill_diagonal_(-torch.inf).argmax(dim=1)]
    return torch.where(evading[:, None], -codes, nearest)


def _root_mean_square(values: Tensor) -> Tensor:
    return values.square().mean(dim=(1, 2, 3), keepdim=True).sqrt().clamp_min(1e-12)

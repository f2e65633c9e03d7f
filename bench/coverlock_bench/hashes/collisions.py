"""How often a white-box forger makes a picture's code pass for another's, by budget.

The forger has the hash with its gradients, and a crowd of released pictures to choose from. The
search is projected gradient descent with momentum, whose steps halve when they stop helping (the
schedule of Auto-PGD), from several starting points; the best point of all is kept. It works on the
code alone: no watermark decoder adds errors of its own, so real forgeries succeed less often.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from coverlock_bench.adaptive.white_box import resampled
from coverlock_sdk import load_hash
from coverlock_sdk.contract import Images
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.hashing.kind_figures import NEEDED, SELECTED, selection_odds
from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.keys import bit_selection
from coverlock_sdk.progress import progress

TOGETHER = 10
"""Pictures that are attacked at once."""

Space = Literal["all", "low", "chroma"]


@dataclass(frozen=True)
class Collision:
    """A search for a change of at most ``psnr`` decibels that gives a picture another's code."""

    psnr: float
    keyed: bool = False
    """Whether a key hides which bits count; then all of them have to agree, as far as they can."""
    space: Space = "all"
    """Any change, one of low frequencies only, or one of colour only."""
    steps: int = 150
    restarts: int = 2
    momentum: float = 0.75
    margin: float = 0.3
    """How far beyond zero a logit is pushed, in units of the mean magnitude."""

    def success(self, name: str, targets: Images, crowd: Images, seed: int = 0) -> dict[str, float]:
        """The share of ``targets`` (N, 3, H, W) that collide with some picture of ``crowd``.

        With a key it is the mean over all selections of bits that the key may have made.
        """
        module, side = differentiable(name)
        bits = np.arange(CODE_BITS) if self.keyed else bit_selection(None, CODE_BITS, SELECTED)
        aims = _logits(module, crowd, side)
        odds, over, psnrs = [], [], []
        starts = range(0, len(targets), TOGETHER)
        for start in progress(starts, f"{name}, {self}"):
            here = torch.from_numpy(targets[start : start + TOGETHER])
            aim = _best_matches(_logits(module, here.numpy(), side), aims, bits)
            rng = np.random.default_rng([seed, start])
            change = self._search(module, side, here, aim, bits, rng)
            forged = (here + change).clamp(0, 1).mul(255).round() / 255
            equal = (_logits(module, forged.numpy(), side) > 0) == (aim > 0)
            matches = equal[:, bits].sum(axis=1)
            odds += list(selection_odds()[matches] if self.keyed else matches >= NEEDED)
            over += list(equal.mean(axis=1))
            error = (forged - here).square().mean(dim=(1, 2, 3)).clamp_min(1e-12)
            psnrs += (-10 * error.log10()).tolist()
        return {
            "targets": len(targets),
            "accepted": float(np.sum(odds)),
            "agreement": float(np.mean(over)),
            "psnr": float(np.mean(psnrs)),
        }

    def _search(
        self,
        module: torch.nn.Module,
        side: int,
        here: Tensor,
        aim: npt.NDArray[np.float32],
        bits: npt.NDArray[np.int64],
        rng: np.random.Generator,
    ) -> Tensor:
        """The change of each picture that leaves the fewest bits lacking."""
        signs = torch.from_numpy(np.where(aim[:, bits] > 0, 1.0, -1.0).astype(np.float32))
        margin = self.margin * float(np.abs(aim).mean())
        best, least = torch.zeros_like(here), torch.full((len(here),), torch.inf)
        for change in self._starting_points(here, rng):
            step = torch.full((len(here), 1, 1, 1), 0.5)
            previous, since = change, torch.full((len(here),), torch.inf)
            for turn in range(self.steps):
                change = change.detach().requires_grad_(True)
                seen = module(resampled((here + change).clamp(0, 1), side))[:, bits]
                lacking = functional.relu(margin - seen * signs).sum(dim=1)
                [gradient] = torch.autograd.grad(lacking.sum(), change)
                with torch.no_grad():
                    better = lacking < least
                    best[better], least[better] = change[better], lacking[better]
                    if turn % max(1, self.steps // 10) == 0:
                        step[lacking.detach() > 0.99 * since] /= 2
                        since = lacking.detach()
                    direction = self._confined(gradient)
                    stride = step * self._limit / _root_mean_square(direction)
                    moved = self._within(change - stride * direction)
                    kept = self.momentum * (moved - change) + (1 - self.momentum) * (
                        change - previous
                    )
                    previous, change = change.detach(), self._within(change + kept)
        return best

    def _starting_points(self, here: Tensor, rng: np.random.Generator) -> Iterator[Tensor]:
        """No change, and then random changes as large as the budget."""
        yield torch.zeros_like(here)
        for _ in range(self.restarts - 1):
            noise = torch.from_numpy(rng.standard_normal(here.shape, dtype=np.float32))
            confined = self._confined(noise)
            yield self._within(confined * self._limit / _root_mean_square(confined))

    def _confined(self, values: Tensor) -> Tensor:
        """The part of ``values`` that lies in the space of allowed changes."""
        if self.space == "chroma":
            return values - values.mean(dim=1, keepdim=True)
        if self.space == "low":
            rows, columns = (_low_pass(length) for length in values.shape[-2:])
            return rows @ values @ columns
        return values

    def _within(self, change: Tensor) -> Tensor:
        """The nearest change within the budget."""
        return change * (self._limit / _root_mean_square(change)).clamp(max=1)

    @property
    def _limit(self) -> float:
        return float(10 ** (-self.psnr / 20))


LOW = 16
"""Cosines per axis that a change of low frequencies is made of."""


@lru_cache(maxsize=8)
def _low_pass(length: int) -> Tensor:
    """The projection (length, length) onto the lowest cosines."""
    angles = np.pi * (np.arange(length)[:, None] + 0.5) * np.arange(LOW) / length
    basis = np.cos(angles)
    basis /= np.linalg.norm(basis, axis=0)
    return torch.from_numpy((basis @ basis.T).astype(np.float32))


@lru_cache(maxsize=4)
def differentiable(name: str) -> tuple[torch.nn.Module, int]:
    """The hash ``name`` in PyTorch, and the side of its input."""
    image_hash = load_hash(name)
    module = image_hash.module()
    if module is None:
        raise CoverLockError(f"there is no differentiable version of the hash '{name}'")
    return module.requires_grad_(False).eval(), image_hash.input_size[0]


def _logits(module: torch.nn.Module, images: Images, side: int) -> npt.NDArray[np.float32]:
    parts = []
    with torch.inference_mode():
        for start in range(0, len(images), TOGETHER):
            pictures = torch.from_numpy(images[start : start + TOGETHER])
            parts.append(module(resampled(pictures, side)).numpy())
    return np.concatenate(parts)


def _best_matches(
    logits: npt.NDArray[np.float32],
    crowd: npt.NDArray[np.float32],
    bits: npt.NDArray[np.int64],
) -> npt.NDArray[np.float32]:
    """For each picture the logits in the crowd whose code is nearest its own."""
    own, others = np.sign(logits[:, bits]), np.sign(crowd[:, bits])
    nearest: npt.NDArray[np.float32] = crowd[(own @ others.T).argmax(axis=1)]
    return nearest


def _root_mean_square(values: Tensor) -> Tensor:
    return values.square().mean(dim=(1, 2, 3), keepdim=True).sqrt().clamp_min(1e-12)

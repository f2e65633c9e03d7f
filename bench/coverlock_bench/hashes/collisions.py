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

from coverlock_bench.adaptive.white_box import WhiteBox
from coverlock_bench.attacks.feature_collision import Energy
from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.locking.keys import bit_selection
from coverlock_sdk.progress import progress
from coverlock_sdk.training.hashes.kind_figures import NEEDED, SELECTED, selection_odds

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

    def success(
        self, known: WhiteBox, targets: Images, crowd: Images, seed: int = 0
    ) -> dict[str, float]:
        """The share of ``targets`` (N, 3, H, W) that collide with some picture of ``crowd``.

        With a key it is the mean over all selections of bits that the key may have made.
        """
        bits = np.arange(CODE_BITS)
        if not self.keyed:
            bits = bits[bit_selection(None, CODE_BITS, SELECTED)]
        aims = _logits(known, crowd)
        odds, over, psnrs = [], [], []
        starts = range(0, len(targets), TOGETHER)
        for start in progress(starts, f"{known}, {self}"):
            here = torch.from_numpy(targets[start : start + TOGETHER])
            aim = _best_matches(_logits(known, here.numpy()), aims, bits)
            rng = np.random.default_rng([seed, start])
            change = self._search(known, here, aim, bits, rng)
            forged = (here + change).clamp(0, 1).mul(255).round() / 255
            equal = (_logits(known, forged.numpy()) > 0) == (aim > 0)
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
        known: WhiteBox,
        here: Tensor,
        aim: Logits,
        bits: npt.NDArray[np.int64],
        rng: np.random.Generator,
    ) -> Tensor:
        """The change of each picture that leaves the fewest bits lacking."""
        signs = torch.from_numpy(np.where(aim[:, bits] > 0, 1.0, -1.0).astype(np.float32))
        margin = self.margin * float(np.abs(aim).mean())
        budget = Energy(self.psnr)
        best, least = torch.zeros_like(here), torch.full((len(here),), torch.inf)
        for change in self._starting_points(here, rng):
            step = torch.full((len(here), 1, 1, 1), 0.5)
            previous, since = change, torch.full((len(here),), torch.inf)
            for turn in range(self.steps):
                change = change.detach().requires_grad_(True)
                seen = known.logits((here + change).clamp(0, 1), rng)[:, bits]
                lacking = functional.relu(margin - seen * signs).sum(dim=1)
                [gradient] = torch.autograd.grad(lacking.sum(), change)
                with torch.no_grad():
                    better = lacking < least
                    best[better], least[better] = change[better], lacking[better]
                    if turn % max(1, self.steps // 10) == 0:
                        step[lacking.detach() > 0.99 * since] /= 2
                        since = lacking.detach()
                    stride = budget.stride(self._confined(gradient))
                    moved = budget.within(change - step * stride)
                    kept = self.momentum * (moved - change) + (1 - self.momentum) * (
                        change - previous
                    )
                    previous, change = change.detach(), budget.within(change + kept)
        return best

    def _starting_points(self, here: Tensor, rng: np.random.Generator) -> Iterator[Tensor]:
        """No change, and then random changes as large as the budget."""
        yield torch.zeros_like(here)
        for _ in range(self.restarts - 1):
            noise = torch.from_numpy(rng.standard_normal(here.shape, dtype=np.float32))
            yield Energy(self.psnr).stride(self._confined(noise))

    def _confined(self, values: Tensor) -> Tensor:
        """The part of ``values`` that lies in the space of allowed changes."""
        if self.space == "chroma":
            return values - values.mean(dim=1, keepdim=True)
        if self.space == "low":
            rows, columns = (_low_pass(length) for length in values.shape[-2:])
            return rows @ values @ columns
        return values


LOW = 16
"""Cosines per axis that a change of low frequencies is made of."""


@lru_cache(maxsize=8)
def _low_pass(length: int) -> Tensor:
    """The projection (length, length) onto the lowest cosines."""
    angles = np.pi * (np.arange(length)[:, None] + 0.5) * np.arange(LOW) / length
    basis = np.cos(angles)
    basis /= np.linalg.norm(basis, axis=0)
    return torch.from_numpy((basis @ basis.T).astype(np.float32))


def _logits(known: WhiteBox, images: Images) -> Logits:
    """The logits of pictures of any number."""
    rng, parts = np.random.default_rng(0), []
    with torch.inference_mode():
        for start in range(0, len(images), TOGETHER):
            pictures = torch.from_numpy(images[start : start + TOGETHER])
            parts.append(known.logits(pictures, rng).numpy())
    return np.concatenate(parts)


def _best_matches(logits: Logits, crowd: Logits, bits: npt.NDArray[np.int64]) -> Logits:
    """For each picture the logits in the crowd whose code is nearest its own."""
    own, others = np.sign(logits[:, bits]), np.sign(crowd[:, bits])
    nearest: Logits = crowd[(own @ others.T).argmax(axis=1)]
    return nearest

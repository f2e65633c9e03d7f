"""How often a white-box forger makes a picture's code pass for another's, by budget.

The forger has the hash with its gradients, and a crowd of released pictures to choose from. The
search is projected gradient descent with momentum, whose steps halve when they stop helping (the
schedule of Auto-PGD), from several starting points towards several sources; the best of all is
kept. It works on the code alone: no watermark decoder adds errors of its own, so real forgeries
succeed less often.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from coverlock_bench.attacks.feature_collision import Energy
from coverlock_bench.auditing.trials import similarity
from coverlock_bench.hashes.ideal_lock import IdealLock
from coverlock_bench.hashes.opponents import Opponent
from coverlock_bench.photos import to_8_bit
from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.locking.keys import bit_selection
from coverlock_sdk.locking.verdict import RULES
from coverlock_sdk.progress import progress
from coverlock_sdk.training.hashes.kind_figures import NEEDED, SELECTED

TOGETHER = 10
"""Pictures that are attacked at once."""

PATIENCE = 10
"""How many times in a search its steps may halve."""

Space = Literal["all", "low", "chroma"]


@dataclass(frozen=True)
class Collision:
    """A search for a change of at most ``psnr`` decibels that gives a picture another's code."""

    psnr: float
    keyed: bool = False
    """Whether a secret rotation of the logits decides which bits count; then all logits have to
    point the same way, as far as they can."""
    space: Space = "all"
    """Any change, one of low frequencies only, or one of colour only."""
    steps: int = 150
    sources: int = 2
    """The nearest pictures of the crowd, each of which is aimed at in a search of its own."""
    momentum: float = 0.75
    margin: float = 0.3
    """How far beyond zero a logit is pushed, in units of the mean magnitude."""

    def success(
        self, opponent: Opponent, targets: Images, crowd: Images, seed: int = 0
    ) -> dict[str, Any]:
        """How many of ``targets`` (N, 3, H, W) collide with some picture of ``crowd``."""
        return self.judged(opponent, self.attempt(opponent, targets, crowd, seed))

    def attempt(
        self, opponent: Opponent, targets: Images, crowd: Images, seed: int = 0
    ) -> dict[str, Any]:
        """What forgeries of ``targets`` come to, as plain values: by the hash as it ships, their
        logits (``have``) and those of their sources (``want``), and how visible they are."""
        forged, aimed = self.forged(opponent, targets, crowd, seed)
        seen = [
            similarity(to_8_bit(target), to_8_bit(picture))
            for target, picture in zip(targets, forged, strict=True)
        ]
        return {
            "have": opponent.judged(forged).tolist(),
            "want": opponent.judged(crowd[aimed]).tolist(),
            **{name: float(np.mean([row[name] for row in seen])) for name in ("psnr", "ssim")},
        }

    def forged(
        self, opponent: Opponent, targets: Images, crowd: Images, seed: int = 0
    ) -> tuple[Images, npt.NDArray[np.int64]]:
        """The targets changed and saved in 8 bits, and which of the crowd each is to pass for."""
        starts = progress(range(0, len(targets), TOGETHER), f"{opponent.name}, {self}")
        parts = [self.forged_from(start, opponent, targets, crowd, seed) for start in starts]
        forged, aimed = zip(*parts, strict=True)
        return np.concatenate(forged), np.concatenate(aimed)

    def forged_from(
        self, start: int, opponent: Opponent, targets: Images, crowd: Images, seed: int = 0
    ) -> tuple[Images, npt.NDArray[np.int64]]:
        """The same of those targets alone that are attacked together, from ``start`` on."""
        bits, known = self._bits(opponent), _logits(opponent, crowd)
        here = torch.from_numpy(targets[start : start + TOGETHER])
        rng = np.random.default_rng([seed, start])
        chosen = self._nearest(_logits(opponent, here.numpy()), known, bits)
        change, aimed = self._best(opponent, here, known, chosen, bits, rng)
        return (here + change).clamp(0, 1).mul(255).round().div(255).numpy(), aimed

    def _bits(self, opponent: Opponent) -> npt.NDArray[np.int64]:
        """The code bits that count; with a key, all may."""
        everything = np.arange(opponent.bits)
        if self.keyed:
            return everything
        return everything[bit_selection(None, opponent.bits, SELECTED)]

    def _nearest(
        self, own: Logits, crowd: Logits, bits: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """For each picture the places (N, sources) of the nearest in the crowd."""
        if self.keyed:
            likeness = _unit(own) @ _unit(crowd).T
        else:
            likeness = np.sign(own[:, bits]) @ np.sign(crowd[:, bits]).T
        return np.argsort(-likeness, axis=1, kind="stable")[:, : self.sources]

    def _best(
        self,
        opponent: Opponent,
        here: Tensor,
        known: Logits,
        chosen: npt.NDArray[np.int64],
        bits: npt.NDArray[np.int64],
        rng: np.random.Generator,
    ) -> tuple[Tensor, npt.NDArray[np.int64]]:
        """The change of each picture that lacks least, and the source it is aimed at."""
        best, least = torch.zeros_like(here), torch.full((len(here),), torch.inf)
        aimed = chosen[:, 0].copy()
        for turn, sources in enumerate(chosen.T):
            first = torch.zeros_like(here)
            if turn:  # the second time from elsewhere
                noise = torch.from_numpy(rng.standard_normal(here.shape, dtype=np.float32))
                first = Energy(self.psnr).stride(self._confined(noise))
            aim = torch.from_numpy(known[sources][:, bits])
            change, lacking = self._search(opponent, here, aim, bits, first)
            better = lacking < least
            best[better], least[better] = change[better], lacking[better]
            aimed[better.numpy()] = sources[better.numpy()]
        return best, aimed

    def _search(
        self,
        opponent: Opponent,
        here: Tensor,
        aim: Tensor,
        bits: npt.NDArray[np.int64],
        change: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """From one starting point: the change of each picture that lacks least, and how much.

        A picture that lacks nothing is left as it is.
        """
        budget = Energy(self.psnr)
        best, least = change.clone(), torch.full((len(here),), torch.inf)
        step = torch.full((len(here), 1, 1, 1), 0.5)
        previous, since = change.clone(), least.clone()
        for turn in range(self.steps):
            rows = least.nonzero().flatten()
            if not len(rows):
                break
            now = change[rows].requires_grad_(True)
            seen = opponent.logits((here[rows] + now).clamp(0, 1))[:, bits]
            lacking = self._lacking(seen, aim[rows])
            [gradient] = torch.autograd.grad(lacking.sum(), now)
            with torch.no_grad():
                better = lacking < least[rows]
                best[rows[better]], least[rows[better]] = now[better], lacking[better]
                if turn % max(1, self.steps // PATIENCE) == 0:
                    step[rows[lacking > 0.99 * since[rows]]] /= 2
                    since[rows] = lacking
                stride = budget.stride(self._confined(gradient))
                moved = budget.within(now - step[rows] * stride)
                kept = self.momentum * (moved - now) + (1 - self.momentum) * (now - previous[rows])
                previous[rows], change[rows] = now, budget.within(now + kept)
        return best, least

    def _lacking(self, seen: Tensor, aim: Tensor) -> Tensor:
        """What each picture lacks: by the angle between all logits, or bit by bit."""
        if self.keyed:
            return 1 - functional.cosine_similarity(seen, aim)
        margin = self.margin * aim.abs().mean()
        return functional.relu(margin - seen * aim.sign()).sum(dim=1)

    def _confined(self, values: Tensor) -> Tensor:
        """The part of ``values`` that lies in the space of allowed changes."""
        if self.space == "chroma":
            return values - values.mean(dim=1, keepdim=True)
        if self.space == "low":
            rows, columns = (_low_pass(length) for length in values.shape[-2:])
            return rows @ values @ columns
        return values

    def judged(self, opponent: Opponent, found: dict[str, Any]) -> dict[str, Any]:
        """The verdicts on an attempt.

        ``accepted`` counts by the default rule of the lock, ``accepted_hard`` by matching bits;
        with a key both are means over keys. A hash that cannot lock is judged by its bits alone.
        """
        have, want = (np.array(found[name], dtype=np.float32) for name in ("have", "want"))
        equal = (have > 0) == (want > 0)
        figures: dict[str, Any] = {"targets": len(have), "agreement": float(equal.mean())}
        if opponent.calibration is not None:
            lock = IdealLock(opponent.calibration, self.keyed)
            odds = {rule: lock.accepted(want, have, rule) for rule in RULES}
            figures |= {"accepted": odds["soft"].sum(), "accepted_hard": odds["hard"].sum()}
        else:
            passed = float((equal[:, self._bits(opponent)].sum(axis=1) >= NEEDED).sum())
            figures |= {"accepted": passed, "accepted_hard": passed}
        figures |= {name: found[name] for name in ("psnr", "ssim")}
        return {name: float(value) for name, value in figures.items()}


LOW = 16
"""Cosines per axis that a change of low frequencies is made of."""


@lru_cache(maxsize=8)
def _low_pass(length: int) -> Tensor:
    """The projection (length, length) onto the lowest cosines."""
    angles = np.pi * (np.arange(length)[:, None] + 0.5) * np.arange(LOW) / length
    basis = np.cos(angles)
    basis /= np.linalg.norm(basis, axis=0)
    return torch.from_numpy((basis @ basis.T).astype(np.float32))


def _logits(opponent: Opponent, images: Images) -> Logits:
    """The logits that the forger sees, of pictures of any number."""
    with torch.inference_mode():
        parts = [
            opponent.logits(torch.from_numpy(images[start : start + TOGETHER])).float().numpy()
            for start in range(0, len(images), TOGETHER)
        ]
    return np.concatenate(parts)


def _unit(logits: Logits) -> Logits:
    unit: Logits = logits / np.linalg.norm(logits, axis=1, keepdims=True)
    return unit

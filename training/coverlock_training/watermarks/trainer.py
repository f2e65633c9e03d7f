"""One trainer for every watermark network: the paper's generic objective (section 2.1).

    L = w_m * l_wm(D(t(E(x, m))), m) + w_i * l_img(E(x, m), x)

with one noise layer t drawn per batch, or per picture where it is ``Mixed``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from coverlock_plugins.networks.network import NoiseLayer, WatermarkNetwork
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.images.resampling import lift_matrix
from coverlock_training.loop import Figures, Schedule, Training
from coverlock_training.muon import Muon
from coverlock_training.watermarks.noise import draw
from coverlock_training.watermarks.photos import TrainingPhotos

Drawn = tuple[Tensor, Tensor, np.random.Generator]
"""Covers, messages, and what the rest of a step draws from."""


@dataclass(frozen=True)
class WatermarkRecipe(Schedule):
    """How a network is trained; each plugin has one with the values of its paper."""

    steps: int = 10_000
    batch: int = 16
    rate: float = 1e-3
    weight_decay: float = 0.0
    optimizer: Literal["adamw", "muon"] = "adamw"
    """Muon is for networks whose weights are nearly all kernels of convolutions."""
    message_loss: Literal["mse", "bce"] = "mse"
    """Regression of the bits (HiDDeN, MBRS, CIN), or cross-entropy of logits (RivaGAN, VINE)."""
    message_weight: float = 1.0
    image_weight: float = 1.0
    """Of the mean squared error, with pictures in [-1, 1] as all these papers have it."""
    noise: tuple[NoiseLayer, ...] = ()
    lifted: bool = False
    """Whether fidelity is that of marked photos of twice the side, onto which residuals are lifted
    when photos are marked, and not that of pictures of the network's own size."""
    noise_after: int = 0
    """Steps before the first noise, for networks that find no message through it at first."""
    inverted_twins: bool = False
    """Each cover twice in a batch, with a message and with its inverse (RivaGAN): what a decoder
    sees of the cover is then the same on both sides, and only the message differs."""
    message_first: int = 0
    """Steps in which fidelity counts little; over as many more it comes to its full weight."""
    early_fidelity: float = 0.02
    """The share of its weight that fidelity has in those steps."""
    piece: int = 0
    """Side of the piece of each cover that a step sees, in pixels; 0: all of it. A network that
    treats all places alike learns from pieces what it needs for the whole, at less cost."""
    settled: int = 0
    """The last steps, in which batch normalisation keeps its running statistics fixed and goes by
    them, as it will in use: with one noise a batch, those of a batch are never quite the same."""

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        if self.batch < 1 or (self.inverted_twins and self.batch % 2):
            raise CoverLockError(f"a batch cannot have {self.batch} pictures: twins come in pairs")
        if not 0 < self.early_fidelity <= 1:
            raise CoverLockError(f"early fidelity is a share above 0, not {self.early_fidelity}")
        if self.piece < 0:
            raise CoverLockError(f"a piece of a cover cannot have {self.piece} pixels a side")
        if not 0 <= self.settled < self.steps:
            raise CoverLockError(
                f"{self.settled} of {self.steps} steps cannot be settled: statistics have to be "
                "gathered before"
            )

    def optimizer_of(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        """The one that the recipe names."""
        if self.optimizer == "muon":
            return Muon(parameters, weight_decay=self.weight_decay)
        return super().optimizer_of(parameters)

    def fidelity_at(self, step: int) -> float:
        """How much fidelity counts: little at first, growing geometrically, then 1."""
        if step >= 2 * self.message_first:
            return 1.0
        return self.early_fidelity ** (2 - max(1.0, step / self.message_first))

    def described(self) -> dict[str, Any]:
        """The recipe for cards and checkpoints, in plain values."""
        return {**asdict(self), "noise": [repr(layer) for layer in self.noise]}

    def is_described_by(self, described: Mapping[str, Any]) -> bool:
        """Whether it is this recipe; fields that it lacks have their defaults."""
        made_with = {**WatermarkRecipe().described(), **described}
        return self.described().items() <= made_with.items()


@dataclass
class Sitting:
    """A stretch of a run under one recipe and one set of network settings."""

    from_step: int
    recipe: dict[str, Any]
    settings: dict[str, Any]
    steps: int = 0


class WatermarkTraining(Training[WatermarkNetwork, Drawn]):
    """Steps of the network; ``measure`` says what is validated."""

    def __init__(
        self,
        network: WatermarkNetwork,
        photos: TrainingPhotos,
        recipe: WatermarkRecipe,
        folder: Path,
        measure: Callable[[WatermarkNetwork], Figures] | None = None,
        bfloat16: bool = False,
    ) -> None:
        super().__init__(network, recipe, folder, measure, bfloat16)
        self.photos, self.recipe = photos, recipe
        self.sittings: list[Sitting] = []

    def notes(self) -> dict[str, Any]:
        """How the run was made so far."""
        return {"sittings": [asdict(sitting) for sitting in self.sittings]}

    def recall(self, notes: dict[str, Any]) -> None:
        """Go on in the last sitting unless something was changed."""
        self.sittings = [Sitting(**earlier) for earlier in notes.get("sittings", ())]
        recipe, settings = self.recipe, self.model.settings
        if self.sittings:
            last = self.sittings[-1]
            unchanged = recipe.is_described_by(last.recipe) and settings == last.settings
            if unchanged or self.step >= recipe.steps:
                return
        self.sittings.append(Sitting(self.step, recipe.described(), settings))

    def draw(self, step: int, rng: np.random.Generator) -> Drawn:
        """Covers and messages, in twins where the recipe says so."""
        count = self.recipe.batch // (1 + self.recipe.inverted_twins)
        covers = _piece(self.photos.batch(count, rng), self.recipe.piece, rng)
        messages = torch.from_numpy(rng.integers(0, 2, (len(covers), self.model.bits))).float()
        if self.recipe.inverted_twins:
            covers, messages = covers.repeat(2, 1, 1, 1), torch.cat([messages, 1 - messages])
        return covers, messages, rng

    def learn(self, batch: Drawn) -> Figures:
        """Mark, change and read pictures; then follow the gradient."""
        recipe, network, rng = self.recipe, self.model, batch[2]
        covers, messages = batch[0].to(self.device), batch[1].to(self.device)
        if self.step >= recipe.steps - recipe.settled:
            settle(network)
        fidelity = recipe.fidelity_at(self.step)
        network.relax(fidelity)
        with self.autocast():
            marked = network.encode(covers, messages).float()
        noise = draw(recipe.noise if self.step >= recipe.noise_after else (), rng)
        noised = noise(_saved(marked, rng), covers, rng)
        with self.autocast():
            logits, own_loss = network.decode_in_training(noised, noise)
        logits = logits.float()
        message_loss = _message_loss(logits, messages, recipe.message_loss)
        change = lifted(marked - covers) if recipe.lifted else marked - covers
        image_loss = 4 * change.square().mean()  # papers measure it in [-1, 1]
        image_weight = recipe.image_weight * fidelity
        total = recipe.message_weight * message_loss + image_weight * image_loss + own_loss
        self.descend(total)
        self.sittings[-1].steps += 1
        mean_square = functional.mse_loss(marked.detach().clamp(0, 1), covers).item()
        return {
            "image_weight": image_weight,
            "message_loss": message_loss.item(),
            "image_loss": image_loss.item(),
            "accuracy": ((logits > 0) == (messages > 0.5)).float().mean().item(),
            "psnr": -10 * float(np.log10(max(mean_square, 1e-12))),
        }

    def validate(self) -> Figures:
        """What the caller wants to know of the network as it will be used."""
        self.model.relax(1.0)
        return super().validate()

    def seen(self) -> dict[str, int]:
        """Marked pictures so far, and their covers, which inverted twins show twice."""
        images = covers = 0
        for sitting in self.sittings:
            shown = sitting.steps * sitting.recipe["batch"]
            images += shown
            covers += shown // (1 + sitting.recipe["inverted_twins"])
        return {"images_seen": images, "covers_seen": covers}


def lifted(residuals: Tensor) -> Tensor:
    """What ``residuals`` are in photos of twice the side."""
    side = residuals.shape[2]
    lift = torch.tensor(lift_matrix(side, 2 * side), device=residuals.device)
    return lift @ residuals @ lift.T


def settle(network: WatermarkNetwork) -> None:
    """Let batch normalisation use its running statistics and leave them as they are."""
    for module in network.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()


def _piece(covers: Tensor, side: int, rng: np.random.Generator) -> Tensor:
    """A square of ``side`` pixels somewhere in the covers; all of them if it is 0."""
    if not side:
        return covers
    height, width = covers.shape[2:]
    if side > min(height, width):
        raise CoverLockError(f"a piece cannot have {side} pixels a side: covers have {height}")
    top, left = rng.integers(height - side + 1), rng.integers(width - side + 1)
    return covers[:, :, top : top + side, left : left + side]


def _message_loss(logits: Tensor, messages: Tensor, kind: str) -> Tensor:
    if kind == "bce":
        return functional.binary_cross_entropy_with_logits(logits, messages)
    return functional.mse_loss(logits + 0.5, messages)  # these networks regress 0 and 1


def _saved(marked: Tensor, rng: np.random.Generator) -> Tensor:
    """Clipped and off by what rounding to eight bits costs, with a gradient."""
    rounding = rng.random(marked.shape, dtype=np.float32) - 0.5
    return (marked + torch.from_numpy(rounding).to(marked) / 255).clamp(0, 1)

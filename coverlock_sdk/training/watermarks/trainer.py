"""One trainer for every watermark network: the paper's generic objective (section 2.1).

    L = w_m * l_wm(D(t(E(x, m))), m) + w_i * l_img(E(x, m), x)    (+ w_a * adversarial)

with one noise layer t drawn per batch. What step k draws depends on the seed and on k alone, so a
run that was interrupted and resumed from its checkpoint is the run that was not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.training.runs import Checkpoint, Figures, History, ResumableRun
from coverlock_sdk.training.watermarks.noise import NoiseLayer, draw
from coverlock_sdk.training.watermarks.photos import TrainingPhotos
from coverlock_sdk.watermarking.network import Discriminator, WatermarkNetwork, device_of

Report = Callable[[int, Figures], None]
"""Told the step, and what was measured there."""


@dataclass(frozen=True)
class Recipe:
    """How a network is trained; each plugin has one with the values of its paper."""

    message_loss: Literal["mse", "bce"] = "mse"
    """Regression of the bits (HiDDeN, MBRS, CIN), or cross-entropy of logits (RivaGAN, VINE)."""
    message_weight: float = 1.0
    image_weight: float = 1.0
    """Of the mean squared error, with pictures in [-1, 1] as all these papers have it."""
    adversarial_weight: float = 0.0
    """Of a discriminator's verdict on the marked pictures; 0: there is none."""
    discriminator_blocks: int = 3
    """Its depth: three blocks in HiDDeN, four in MBRS."""
    noise: tuple[NoiseLayer, ...] = ()
    noise_after: int = 0
    """Steps before the first noise, for networks that find no message through it at first."""
    rate: float = 1e-3
    batch: int = 16
    inverted_twins: bool = False
    """Each cover twice in a batch, with a message and with its inverse (RivaGAN): what a decoder
    sees of the cover is then the same on both sides, and only the message differs."""
    steps: int = 10_000
    message_first: int = 0
    """Steps in which fidelity counts little; over as many more it comes to its full weight."""
    early_fidelity: float = 0.02
    """The share of its weight that fidelity has in those steps."""
    decay: int = 0
    """The last steps, over which the learning rate falls to zero."""
    seed: int = 0
    record_every: int = 500
    """Steps between two checkpoints, each with a validation."""

    def __post_init__(self) -> None:
        """Refuse what could not be meant."""
        if self.batch < 1 or (self.inverted_twins and self.batch % 2):
            raise CoverLockError(f"a batch cannot have {self.batch} pictures: twins come in pairs")
        if not 0 < self.early_fidelity <= 1:
            raise CoverLockError(f"early fidelity is a share above 0, not {self.early_fidelity}")

    def fidelity_at(self, step: int) -> float:
        """How much fidelity counts: little at first, growing geometrically, then 1."""
        if step >= 2 * self.message_first:
            return 1.0
        share: float = self.early_fidelity ** (2 - max(1.0, step / self.message_first))
        return share

    def noise_at(self, step: int) -> tuple[NoiseLayer, ...]:
        """What a layer is drawn from: nothing at first, where the recipe says so."""
        return self.noise if step >= self.noise_after else ()

    def rate_at(self, step: int) -> float:
        """The learning rate: constant, then falling."""
        return self.rate * (min(1.0, (self.steps - step) / self.decay) if self.decay else 1.0)

    def described(self) -> dict[str, Any]:
        """The recipe for cards and checkpoints, in plain values."""
        return {**asdict(self), "noise": [repr(layer) for layer in self.noise]}

    def is_described_by(self, described: Mapping[str, Any]) -> bool:
        """Whether it is this recipe; one from before there was some field has its default."""
        return {**Recipe().described(), **described} == self.described()


@dataclass
class Sitting:
    """A stretch of a run under one recipe and one set of network settings."""

    from_step: int
    recipe: dict[str, Any]
    settings: dict[str, Any]
    steps: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    """Where the time went: waiting for photos, each phase of a step, validation."""

    @property
    def images(self) -> int:
        """Marked pictures in its steps."""
        return self.steps * int(self.recipe["batch"])

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Count the time within as that of ``phase``; what a GPU is asked for counts when due."""
        started = time.perf_counter()
        yield
        self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - started

    def is_made_with(self, recipe: Recipe, settings: Mapping[str, Any]) -> bool:
        """Whether steps with these would belong to it."""
        return recipe.is_described_by(self.recipe) and self.settings == settings


class Run(ResumableRun):
    """Everything a run needs to go on: weights, optimisers, curves, and how it was made so far."""

    def __init__(self, network: WatermarkNetwork, recipe: Recipe) -> None:
        self.network, self.recipe = network, recipe
        trained = [p for p in network.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(trained, lr=recipe.rate)
        self.discriminator: Discriminator | None = None
        if recipe.adversarial_weight:
            opponent = Discriminator(blocks=recipe.discriminator_blocks)
            self.discriminator = opponent.to(device_of(network))
            self.opposition = torch.optim.Adam(self.discriminator.parameters(), lr=recipe.rate)
        self.history, self.step = History(), 0
        self.sittings: list[Sitting] = []

    @property
    def parts(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        parts: dict[str, Any] = {"network": self.network, "optimizer": self.optimizer}
        if self.discriminator is not None:
            parts |= {"discriminator": self.discriminator, "opposition": self.opposition}
        return parts

    def sit_down(self, folder: Path) -> None:
        """Go on from the last checkpoint, in its last sitting unless something was changed.

        Checkpoints from before they kept sittings tell nothing of their own.
        """
        self.sittings = [Sitting(**sitting) for sitting in self.load(folder).get("sittings", [])]
        recipe, settings = self.recipe, self.network.settings
        goes_on = self.sittings and (
            self.step >= recipe.steps or self.sittings[-1].is_made_with(recipe, settings)
        )
        if not goes_on:
            self.sittings.append(Sitting(self.step, recipe.described(), settings))

    def seen(self) -> dict[str, int]:
        """Marked pictures so far, and their covers, which inverted twins show twice.

        Steps before the first sitting that is known are counted as its own.
        """
        first = self.sittings[0]
        known = [(sitting.steps, sitting.recipe) for sitting in self.sittings]
        images = covers = 0
        for steps, recipe in [(first.from_step, first.recipe), *known]:
            images += steps * recipe["batch"]
            covers += steps * recipe["batch"] // (1 + recipe["inverted_twins"])
        return {"images_seen": images, "covers_seen": covers}


def train(
    network: WatermarkNetwork,
    photos: TrainingPhotos,
    recipe: Recipe,
    folder: Path,
    validate: Callable[[WatermarkNetwork], Figures] | None = None,
    report: Report | None = None,
    half: bool = False,
) -> Run:
    """Optimise ``network`` in place and return the finished run, with its curves and sittings.

    ``folder`` receives ``checkpoint.pt``, from which a later call goes on, and ``history.json``.
    A loss that is not finite stops the run and says where it was. ``half`` computes convolutions
    in bfloat16, which is twice as fast where the processor has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    run = Run(network, recipe)
    run.sit_down(folder)

    def prepare(step: int) -> tuple[Tensor, Tensor, np.random.Generator]:
        rng = np.random.default_rng([recipe.seed, step])
        covers = photos.batch(recipe.batch // (1 + recipe.inverted_twins), rng)
        messages = torch.from_numpy(rng.integers(0, 2, (len(covers), network.bits))).float()
        if recipe.inverted_twins:
            covers, messages = covers.repeat(2, 1, 1, 1), torch.cat([messages, 1 - messages])
        return covers, messages, rng

    with ThreadPoolExecutor(1) as ahead:
        upcoming = ahead.submit(prepare, run.step)
        while run.step < recipe.steps:
            with run.sittings[-1].timed("loading"):
                covers, messages, rng = upcoming.result()
            upcoming = ahead.submit(prepare, run.step + 1)
            figures = _step(run, covers, messages, rng, folder, half)
            run.history.steps.append({"step": run.step, **figures})
            run.step += 1
            run.sittings[-1].steps += 1
            if report:
                report(run.step, figures)
            if run.step % recipe.record_every == 0 or run.step == recipe.steps:
                if validate:
                    network.relax(1.0)
                    network.eval()
                    with run.sittings[-1].timed("validation"):
                        figures = validate(network)
                    run.history.validation.append({"step": run.step, **figures})
                    if report:
                        report(run.step, run.history.validation[-1])
                run.save(folder, sittings=[asdict(sitting) for sitting in run.sittings])
    network.relax(1.0)
    network.eval()
    return run


def _step(
    run: Run,
    covers: Tensor,
    messages: Tensor,
    rng: np.random.Generator,
    folder: Path,
    half: bool,
) -> Figures:
    """One step of Adam for the network and, where there is one, for its discriminator."""
    recipe, network, device = run.recipe, run.network, device_of(run.network)
    covers, messages = covers.to(device), messages.to(device)
    fidelity, timed = recipe.fidelity_at(run.step), run.sittings[-1].timed
    network.relax(fidelity)
    network.train()
    with timed("encoding"), torch.autocast(device.type, torch.bfloat16, enabled=half):
        marked = network.encode(covers, messages).float()
    with timed("noise"):
        noise = draw(recipe.noise_at(run.step), rng)
        noised = noise(_saved(marked, rng), covers, rng)
    with timed("decoding"), torch.autocast(device.type, torch.bfloat16, enabled=half):
        logits, own_loss = network.decode_in_training(noised, noise)
    logits = logits.float()
    message_loss = _message_loss(logits, messages, recipe.message_loss)
    image_loss = 4 * functional.mse_loss(marked, covers)  # papers measure it in [-1, 1]
    image_weight = recipe.image_weight * fidelity
    total = recipe.message_weight * message_loss + image_weight * image_loss + own_loss
    with timed("learning"):
        _learn(run, total, covers, marked, Checkpoint(folder / "checkpoint.pt"))
    accuracy = ((logits > 0) == (messages > 0.5)).float().mean().item()
    mean_square = functional.mse_loss(marked.detach().clamp(0, 1), covers).item()
    return {
        "rate": recipe.rate_at(run.step),
        "image_weight": image_weight,
        "message_loss": message_loss.item(),
        "image_loss": image_loss.item(),
        "accuracy": accuracy,
        "psnr": -10 * float(np.log10(max(mean_square, 1e-12))),
    }


def _learn(run: Run, loss: Tensor, covers: Tensor, marked: Tensor, checkpoint: Checkpoint) -> None:
    """Follow the gradient of ``loss`` and of what the discriminator says, then teach it too."""
    rate = run.recipe.rate_at(run.step)
    for group in run.optimizer.param_groups:
        group["lr"] = rate
    if run.discriminator is not None:
        opposed = functional.softplus(-run.discriminator(marked)).mean()
        loss = loss + run.recipe.adversarial_weight * opposed
    checkpoint.require_finite(loss, run.step, rate)
    run.optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    norm = nn.utils.clip_grad_norm_(run.network.parameters(), 1.0)
    checkpoint.require_finite(norm, run.step, rate, of="gradient")
    run.optimizer.step()
    if run.discriminator is not None:
        _oppose(run, covers, marked.detach(), checkpoint)


def _message_loss(logits: Tensor, messages: Tensor, kind: str) -> Tensor:
    if kind == "bce":
        return functional.binary_cross_entropy_with_logits(logits, messages)
    return functional.mse_loss(logits + 0.5, messages)  # these networks regress 0 and 1


def _saved(marked: Tensor, rng: np.random.Generator) -> Tensor:
    """Clipped and off by what rounding to eight bits costs, with a gradient."""
    rounding = rng.random(marked.shape, dtype=np.float32) - 0.5
    return (marked + torch.from_numpy(rounding).to(marked) / 255).clamp(0, 1)


def _oppose(run: Run, covers: Tensor, marked: Tensor, checkpoint: Checkpoint) -> None:
    """One step of the discriminator: covers are 1, marked pictures 0."""
    assert run.discriminator is not None
    run.opposition.zero_grad(set_to_none=True)
    loss = functional.softplus(-run.discriminator(covers)).mean()
    loss = loss + functional.softplus(run.discriminator(marked)).mean()
    loss.backward()  # type: ignore[no-untyped-call]
    norm = nn.utils.clip_grad_norm_(run.discriminator.parameters(), math.inf)
    of = "gradient of the discriminator"
    checkpoint.require_finite(norm, run.step, run.recipe.rate, of)
    run.opposition.step()

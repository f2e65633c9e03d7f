"""Training of the preference model on pairs: a photo, and the same photo with a synthetic mark.

What step t draws depends on the seed and on t alone, so a run that was interrupted and resumed
from its checkpoint is the run that was not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from coverlock_bench.photos import to_8_bit, to_float
from coverlock_bench.preference.augmentations import augment
from coverlock_bench.preference.marks import FAMILIES, add_mark
from coverlock_bench.preference.network import PUBLISHED, SMALL, PreferenceNetwork, lift
from coverlock_plugins.convnext.network import Shape
from coverlock_sdk.images.resampling import resample
from coverlock_sdk.training.hashes.trainer import Schedule
from coverlock_sdk.training.held_out import HELD_OUT, split
from coverlock_sdk.training.runs import Checkpoint, Figures, History, ResumableRun

SMALL_SCHEDULE = Schedule(
    steps=650, batch=16, rate=1e-3, weight_decay=0.05, warmup=50, decay=250, record_every=50
)


@dataclass(frozen=True)
class Recipe:
    """How the small model is trained: fewer, smaller pictures than the authors use."""

    shape: Shape = SMALL
    side: int = 64
    """Side of the square that is cut out of a photo."""
    schedule: Schedule = SMALL_SCHEDULE
    augmentations: int = 1
    lift_from: int = 200
    """The first step with a second half; earlier there is no gradient worth following."""
    lift_steps: int = 2
    """Gradient steps by which the second half of a step cleans the marked pictures."""
    lift_rates: tuple[float, float] = (0.03, 0.09)
    validation: int = 48
    """Held-out pairs on which each checkpoint is measured."""


PUBLISHED_RECIPE = Recipe(
    shape=PUBLISHED,
    side=256,
    schedule=Schedule(steps=60_000, batch=128, rate=5e-5, record_every=1000),
    augmentations=2,
    lift_from=0,
)
"""The authors': ConvNeXt V2 Tiny, 60 epochs of 1000 steps on 8 GPUs of 16 pairs each."""


@dataclass
class PreferenceRun(ResumableRun):
    """Everything a run needs to go on: weights, optimiser, curves."""

    network: PreferenceNetwork
    optimizer: torch.optim.AdamW
    history: History = field(default_factory=History)
    step: int = 0

    @property
    def parts(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"network": self.network, "optimizer": self.optimizer}


def train_preference(
    photos: Path,
    folder: Path,
    recipe: Recipe | None = None,
    report: Callable[[int, Figures], None] | None = None,
) -> PreferenceNetwork:
    """Train on a folder of photos; ``folder`` keeps checkpoint and curves, and resumes a run."""
    recipe = recipe or Recipe()
    schedule = recipe.schedule
    training, held_out = split(photos, HELD_OUT)
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(schedule.seed)
    network = PreferenceNetwork(recipe.shape)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=schedule.weight_decay)
    run = PreferenceRun(network, optimizer)
    run.load(folder)

    def draw(step: int) -> tuple[Tensor, Tensor]:
        return draw_pairs(
            training, schedule.batch, recipe, np.random.default_rng([schedule.seed, step])
        )

    with ThreadPoolExecutor(1) as ahead:
        upcoming = ahead.submit(draw, run.step)
        while run.step < schedule.steps:
            clean, marked = upcoming.result()
            upcoming = ahead.submit(draw, run.step + 1)
            figures = _step(run, clean, marked, recipe, folder)
            run.history.steps.append({"step": run.step, **figures})
            run.step += 1
            if report:
                report(run.step, figures)
            if run.step % schedule.record_every == 0 or run.step == schedule.steps:
                measured = validate(network, held_out, recipe)
                run.history.validation.append({"step": run.step, **measured})
                if report:
                    report(run.step, measured)
                run.save(folder)
    return network.eval()


def draw_pairs(
    photos: Sequence[Path], count: int, recipe: Recipe, rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Unmarked and marked squares (count, 3, side, side), the families of marks in turn."""
    families, pairs = list(FAMILIES.values()), []
    for index in range(count):
        with Image.open(photos[int(rng.integers(len(photos)))]) as file:
            photo = np.asarray(file.convert("RGB"))
        top = rng.integers(max(photo.shape[0] - recipe.side, 0) + 1)
        left = rng.integers(max(photo.shape[1] - recipe.side, 0) + 1)
        square = photo[top : top + recipe.side, left : left + recipe.side]
        clean = resample(to_float(square), (recipe.side, recipe.side))
        marked = add_mark(clean, families[index % len(families)], rng)
        pair = augment([to_8_bit(clean), to_8_bit(marked)], recipe.augmentations, rng)
        size = (recipe.side, recipe.side)
        pairs.append(np.stack([resample(to_float(picture), size) for picture in pair]))
    both = torch.from_numpy(np.stack(pairs))  # (count, 2, 3, side, side)
    return both[:, 0], both[:, 1]


def validate(network: PreferenceNetwork, photos: Sequence[Path], recipe: Recipe) -> Figures:
    """On held-out pairs: how often the unmarked one is preferred, and how well marks are lifted.

    ``lifted`` is the correlation of what lifting takes away with the mark that was added.
    """
    network.eval()
    clean, marked = draw_pairs(photos, recipe.validation, recipe, np.random.default_rng(0))
    preferred, lifted = [], []
    for start in range(0, len(clean), 48):
        a, b = clean[start : start + 48], marked[start : start + 48]
        with torch.inference_mode():
            preferred.append(network(a) > network(b))
        # As many pixels as a training square has, so the training rates fit; many small steps.
        taken = b - lift(network, b, steps=10, rate=recipe.lift_rates[1])
        lifted.append(functional.cosine_similarity(taken.flatten(1), (b - a).flatten(1)))
    right, similar = torch.cat(preferred).float(), torch.cat(lifted)
    figures = {"preferred": right.mean().item(), "lifted": similar.mean().item()}
    for offset, name in enumerate(FAMILIES):
        figures[f"preferred_{name}"] = right[offset :: len(FAMILIES)].mean().item()
        figures[f"lifted_{name}"] = similar[offset :: len(FAMILIES)].mean().item()
    return figures


def model_card(recipe: Recipe, folder: Path) -> dict[str, Any]:
    """What the model in ``folder`` is, and how well it does on held-out photos."""
    history = json.loads((folder / "history.json").read_text())
    return {
        "command": "coverlock train preference PHOTOS --run RUN",
        "recipe": asdict(recipe),
        "held_out": history["validation"][-1],
        "versions": {"torch": torch.__version__, "numpy": np.__version__},
    }


def _step(
    run: PreferenceRun, clean: Tensor, marked: Tensor, recipe: Recipe, folder: Path
) -> Figures:
    """One step on the pairs as they are, and one on marked pictures that were partly cleaned.

    The second is what makes the gradient worth following: a change that fools the model without
    removing the mark is taught to be as bad as the mark.
    """
    rate = recipe.schedule.rate_at(run.step)
    for group in run.optimizer.param_groups:
        group["lr"] = rate
    run.network.train()
    figures = {"rate": rate, "total": _prefer(run, clean, marked, folder)}
    if run.step < recipe.lift_from:
        return figures
    rng = np.random.default_rng([recipe.schedule.seed, run.step, 1])
    with _half_precision(clean):
        cleaned = lift(run.network, marked, recipe.lift_steps, rng.uniform(*recipe.lift_rates))
    figures["cleaned"] = _prefer(run, clean, cleaned, folder)
    figures["moved"] = (cleaned - marked).square().mean().sqrt().item()
    return figures


def _prefer(run: PreferenceRun, better: Tensor, worse: Tensor, folder: Path) -> float:
    """One step of AdamW on the Bradley-Terry likelihood that ``better`` is preferred."""
    with _half_precision(better):
        ahead, behind = run.network(torch.cat([better, worse])).float().chunk(2)
    loss = functional.softplus(behind - ahead).mean()
    rate = float(run.optimizer.param_groups[0]["lr"])
    checkpoint = Checkpoint(folder / "checkpoint.pt")
    checkpoint.require_finite(loss, run.step, rate)
    run.optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    norm = torch.nn.utils.clip_grad_norm_(run.network.parameters(), 1.0)
    checkpoint.require_finite(norm, run.step, rate, of="gradient")
    run.optimizer.step()
    return loss.item()


def _half_precision(images: Tensor) -> torch.autocast:
    return torch.autocast(images.device.type, torch.bfloat16)

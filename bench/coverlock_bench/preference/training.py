"""Training of the preference model on pairs: a photo, and the same photo with a synthetic mark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from coverlock_bench.photos import to_8_bit, to_float
from coverlock_bench.preference.augmentations import augment
from coverlock_bench.preference.marks import FAMILIES, add_mark
from coverlock_bench.preference.network import PUBLISHED, SMALL, PreferenceNetwork, lift
from coverlock_bench.preference.weights import shape_of
from coverlock_plugins.convnext.network import Shape
from coverlock_sdk.images.resampling import resample
from coverlock_sdk.training.loop import Figures, History, Report, Schedule, Training
from coverlock_sdk.training.photos import HELD_OUT, rgb, split
from coverlock_sdk.training.results import write_results

SMALL_SCHEDULE = Schedule(
    steps=650, batch=16, rate=1e-3, weight_decay=0.05, warmup=50, decay=250, record_every=50
)


@dataclass(frozen=True)
class PreferenceRecipe:
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


PUBLISHED_RECIPE = PreferenceRecipe(
    shape=PUBLISHED,
    side=256,
    schedule=Schedule(steps=60_000, batch=128, rate=5e-5, record_every=1000),
    augmentations=2,
    lift_from=0,
)
"""The authors': ConvNeXt V2 Tiny, 60 epochs of 1000 steps on 8 GPUs of 16 pairs each."""


def train_preference(
    photos: Path,
    folder: Path,
    recipe: PreferenceRecipe | None = None,
    report: Report | None = None,
) -> PreferenceNetwork:
    """Train on a folder of photos; ``folder`` keeps checkpoint and curves, and resumes a run."""
    return PreferenceTraining(photos, folder, recipe or PreferenceRecipe()).run(report)


class PreferenceTraining(Training[PreferenceNetwork, tuple[Tensor, Tensor]]):
    """Steps on pairs as they are, and on marked pictures that were partly cleaned.

    The second is what makes the gradient worth following: a change that fools the model without
    removing the mark is taught to be as bad as the mark.
    """

    def __init__(self, photos: Path, folder: Path, recipe: PreferenceRecipe) -> None:
        self.training, self.held_out = split(photos, HELD_OUT)
        self.recipe = recipe
        torch.manual_seed(recipe.schedule.seed)
        super().__init__(PreferenceNetwork(recipe.shape), recipe.schedule, folder, bfloat16=True)

    def draw(self, step: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Unmarked and marked squares of training photos."""
        return draw_pairs(self.training, self.schedule.batch, self.recipe, rng)

    def learn(self, batch: tuple[Tensor, Tensor]) -> Figures:
        """One step on the pairs and, where the recipe says so, one on cleaned pictures."""
        clean, marked = batch
        figures = {"total": self._prefer(clean, marked)}
        if self.step < self.recipe.lift_from:
            return figures
        rng = np.random.default_rng([self.schedule.seed, self.step, 1])
        with self.autocast():
            rate = rng.uniform(*self.recipe.lift_rates)
            cleaned = lift(self.model, marked, self.recipe.lift_steps, rate)
        figures["cleaned"] = self._prefer(clean, cleaned)
        figures["moved"] = (cleaned - marked).square().mean().sqrt().item()
        return figures

    def _prefer(self, better: Tensor, worse: Tensor) -> float:
        """One step on the Bradley-Terry likelihood that ``better`` is preferred."""
        with self.autocast():
            ahead, behind = self.model(torch.cat([better, worse])).float().chunk(2)
        loss = functional.softplus(behind - ahead).mean()
        self.descend(loss)
        return loss.item()

    def validate(self) -> Figures:
        """How the model does on held-out photos."""
        return validate(self.averaged, self.held_out, self.recipe)


def draw_pairs(
    photos: Sequence[Path], count: int, recipe: PreferenceRecipe, rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Unmarked and marked squares (count, 3, side, side), the families of marks in turn."""
    families, pairs = list(FAMILIES.values()), []
    for index in range(count):
        photo = rgb(photos[int(rng.integers(len(photos)))])
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


def validate(
    network: PreferenceNetwork, photos: Sequence[Path], recipe: PreferenceRecipe
) -> Figures:
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


def write_preference(network: PreferenceNetwork, recipe: PreferenceRecipe, folder: Path) -> Path:
    """Write the trained model in half precision, with a card that says how well it does."""
    card = {
        "command": "coverlock train preference PHOTOS --run RUN",
        "recipe": asdict(recipe),
        "held_out": History.read(folder / "history.json").validation[-1],
    }
    weights = folder / "preference.safetensors"
    write_results(weights, network.half().state_dict(), card, shape_of(network))
    return weights

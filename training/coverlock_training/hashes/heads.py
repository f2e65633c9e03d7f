"""How the paper's hash is trained: a head on a frozen backbone (appendix B of the paper)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from coverlock_plugins.dinov2.head import Backbone, HashHead
from coverlock_plugins.networks.network import in_chunks
from coverlock_sdk.arrays import Logits
from coverlock_sdk.calibration import Calibration
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.folders import HELD_OUT, split
from coverlock_training.hashes.features import (
    Features,
    evaluation_features,
    fingerprint,
    training_features,
)
from coverlock_training.hashes.figures import figures_of
from coverlock_training.hashes.losses import Objective
from coverlock_training.loop import Figures, Report, Schedule, Training, require_device
from coverlock_training.results import write_results


@dataclass(frozen=True)
class HeadRecipe(Schedule):
    """Schedule and objective of a head; the defaults are the paper's."""

    record_every: int = 2000
    curve_every: int = 50
    objective: Objective = field(default_factory=Objective)
    views: int = 10
    """Distorted views per photo whose features are kept."""


class HeadData(NamedTuple):
    """What a head learns from, and what it is measured on: features of one backbone."""

    training: Features
    """(N, 1 + V, D): clean, and in V drawn views."""
    held_out: Features
    """(N, 8, D): clean, under the six evaluation distortions, under one training distortion."""
    about: Mapping[str, Any]
    """What the card says of the backbone."""


class HeadTraining(Training[HashHead, Tensor]):
    """Steps on batches whose first half is clean and whose second half is distorted."""

    def __init__(
        self,
        head: HashHead,
        features: Features,
        recipe: HeadRecipe,
        folder: Path,
        measure: Callable[[HashHead], Figures] | None = None,
        bfloat16: bool = False,
    ) -> None:
        super().__init__(head, recipe, folder, measure, bfloat16)
        self.features, self.recipe = features, recipe

    def draw(self, step: int, rng: np.random.Generator) -> Tensor:
        """Each photo and one of its views; no photo twice unless there are fewer."""
        (count, views, _), batch = self.features.shape, self.recipe.batch
        rows = rng.choice(count, batch, replace=count < batch)
        drawn = rng.integers(1, views, batch)
        pairs = [self.features[rows, 0], self.features[rows, drawn]]
        return torch.from_numpy(np.concatenate(pairs))

    def learn(self, batch: Tensor) -> Figures:
        """One step on the sum of the objective's terms."""
        with self.autocast():
            embedding = self.model.embed(batch.to(self.device)).float()
        logits = self.model.logits_of(embedding)
        terms = self.recipe.objective.terms(*embedding.chunk(2), *logits.chunk(2))
        self.descend(terms["total"])
        clean, distorted = logits.detach().chunk(2)
        flipped = ((clean > 0) != (distorted > 0)).float().mean().item()
        return {"flipped": flipped, **{name: term.item() for name, term in terms.items()}}


def head_data(backbone: Backbone, photos: Path, cache: Path, recipe: HeadRecipe) -> HeadData:
    """Compute the features of a folder of photos, or go on where that was interrupted."""
    training, held_out = split(photos, HELD_OUT)
    if len(held_out) < 2:
        raise PictureError(f"{photos} holds too few photos to measure a head on: give a few dozen")
    return HeadData(
        training_features(backbone, training, recipe.views, cache, recipe.seed),
        evaluation_features(backbone, held_out, cache, recipe.seed),
        {"backbone": fingerprint(backbone), "network": backbone.settings},
    )


def train_head(
    data: HeadData,
    run: Path,
    recipe: HeadRecipe,
    report: Report | None = None,
    bfloat16: bool = False,
    device: str = "cpu",
) -> Figures:
    """Train a head and write ``hash.safetensors`` and its card; return its figures.

    Weights are kept in half precision. Figures and calibration are those of the weights as they
    are kept, on the held-out photos. An interrupted run goes on from ``run``.
    """
    torch.manual_seed(recipe.seed)
    head = HashHead(data.training.shape[2]).to(require_device(device))

    def measured(head: HashHead) -> Figures:
        return figures_of(logits_of(head, data.held_out[:, :-1]) > 0)

    head = HeadTraining(head, data.training, recipe, run / "head", measured, bfloat16).run(report)
    stored = {
        name: value.half() if value.ndim > 1 else value for name, value in head.state_dict().items()
    }
    head.load_state_dict(stored)
    figures = measured(head)
    seen = logits_of(head, data.held_out[:, [0, -1]])
    card = {
        **data.about,
        "recipe": asdict(recipe),
        "bfloat16": bfloat16,
        "photos": len(data.training),
        "held_out_photos": len(data.held_out),
        "calibration": asdict(Calibration.fit(seen[:, 1], seen[:, 0] > 0)),
        "held_out": figures,
    }
    write_results(run / "hash.safetensors", stored, card)
    return figures


def logits_of(head: HashHead, features: Features) -> Logits:
    """The logits (N, V, 256) of features (N, V, D)."""
    pooled = torch.from_numpy(np.array(features)).flatten(0, 1)
    return in_chunks(head.eval(), pooled, rows=1024).view(*features.shape[:2], -1).numpy()

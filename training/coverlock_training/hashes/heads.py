"""How the paper's hash is trained: a head on a frozen backbone (appendix B of the paper)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from coverlock_plugins.dinov2.head import Backbone, HashHead
from coverlock_sdk.arrays import Logits
from coverlock_sdk.calibration import Calibration
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.folders import HELD_OUT, split
from coverlock_training.hashes.features import (
    CachedFeatures,
    Features,
    evaluation_features,
    fingerprint,
    training_features,
)
from coverlock_training.hashes.figures import figures_of
from coverlock_training.hashes.losses import Objective
from coverlock_training.hashes.trainer import HashTraining
from coverlock_training.loop import Figures, Report, Schedule, require_device
from coverlock_training.results import write_results

PAPER_OBJECTIVE = Objective()
PAPER_SCHEDULE = Schedule(record_every=2000, curve_every=50)


@dataclass(frozen=True)
class HeadRecipe:
    """Objective and schedule of a head; the defaults are the paper's."""

    objective: Objective = PAPER_OBJECTIVE
    schedule: Schedule = PAPER_SCHEDULE
    views: int = 10
    """Distorted views per photo whose features are kept."""
    held_out: float = HELD_OUT


class HeadData(NamedTuple):
    """What a head learns from, and what it is measured on: features of one backbone."""

    training: Features
    """(N, 1 + V, D): clean, and in V drawn views."""
    held_out: Features
    """(N, 8, D): clean, under the six evaluation distortions, under one training distortion."""
    about: Mapping[str, Any]
    """What the card says of the backbone."""


def head_data(
    backbone: Backbone, photos: Path, cache: Path, recipe: HeadRecipe | None = None
) -> HeadData:
    """Compute the features of a folder of photos, or go on where that was interrupted."""
    recipe = recipe or HeadRecipe()
    training, held_out = split(photos, recipe.held_out)
    if len(held_out) < 2:
        raise PictureError(f"{photos} holds too few photos to measure a head on: give a few dozen")
    seed = recipe.schedule.seed
    return HeadData(
        training_features(backbone, training, recipe.views, cache, seed),
        evaluation_features(backbone, held_out, cache, seed),
        {"backbone": fingerprint(backbone), "network": backbone.settings},
    )


def train_head(
    data: HeadData,
    run: Path,
    recipe: HeadRecipe | None = None,
    report: Report | None = None,
    bfloat16: bool = False,
    device: str = "cpu",
) -> Figures:
    """Train a head and write ``hash.safetensors`` and its card; return its figures.

    Weights are kept in half precision. Figures and calibration are those of the weights as they
    are kept, on the held-out photos. An interrupted run goes on from ``run``.
    """
    recipe, place = recipe or HeadRecipe(), require_device(device)
    torch.manual_seed(recipe.schedule.seed)
    head = HashHead(data.training.shape[2]).to(place)

    def measured(head: HashHead) -> Figures:
        return figures_of(logits_of(head, data.held_out[:, :-1]) > 0)

    training = HashTraining(
        head,
        CachedFeatures(data.training),
        recipe.objective,
        recipe.schedule,
        run / "head",
        measured,
        bfloat16,
    )
    head = training.run(report)
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
    device = next(head.parameters()).device
    head.eval()
    with torch.inference_mode():
        rows = [head(torch.from_numpy(np.array(row)).to(device)).cpu().numpy() for row in features]
    return np.stack(rows)

"""From a folder of photos to a weight file with its card, for ``coverlock train watermark``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from coverlock_plugins.networks.network import WatermarkNetwork
from coverlock_plugins.networks.watermark import card_of
from coverlock_plugins.networks.weights import fill_network, settings_of
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.images.folders import HELD_OUT, split
from coverlock_training.loop import Report, require_device
from coverlock_training.results import write_results
from coverlock_training.watermarks.examination import examine, quality, squares
from coverlock_training.watermarks.photos import TrainingPhotos
from coverlock_training.watermarks.trainer import WatermarkRecipe, WatermarkTraining

VALIDATION_PHOTOS = 100


@dataclass(frozen=True)
class Trainable:
    """A network that can be trained by name, with the settings it was published with."""

    build: Callable[..., WatermarkNetwork]
    recipe: WatermarkRecipe
    reference: Mapping[str, Any]
    """Network settings of the checkpoint that ships, where the published ones are too large."""
    reference_recipe: WatermarkRecipe
    """How that checkpoint was trained."""


def train_watermark(
    trainable: Trainable,
    photos: Path,
    run: Path,
    settings: Mapping[str, Any],
    recipe: WatermarkRecipe,
    cache: Path | None = None,
    report: Report | None = None,
    bfloat16: bool = False,
    device: str = "cpu",
    start: Path | None = None,
) -> WatermarkNetwork:
    """Train on a folder of photos; ``run`` gets checkpoints, curves, weights and their card.

    ``start`` is a weight file to begin from, perhaps of another size of picture. A tenth of the
    photos is held out, the same as for every other training of the SDK; figures and calibration
    come from there.
    """
    place = require_device(device)
    torch.manual_seed(recipe.seed)
    try:
        network = trainable.build(**settings).to(place)
    except (TypeError, ValueError) as error:
        raise CoverLockError(f"the network cannot be built with {settings}: {error}") from error
    if start is not None:
        fill_network(network, start, trainable.build)
    learned, validation = split(photos, HELD_OUT)
    data = TrainingPhotos(learned, network.size, cache or run / "cache")
    covers = squares(validation[:VALIDATION_PHOTOS], network.size)
    training = WatermarkTraining(
        network, data, recipe, run, lambda trained: quality(trained, covers), bfloat16
    )
    network = training.run(report)
    calibration, robustness = examine(network, covers)
    card = {
        "settings": network.settings,
        "recipe": training.sittings[-1].recipe,
        **(training.notes() if len(training.sittings) > 1 else {}),
        **({"begun_with": card_of(start)} if start else {}),
        "bfloat16": bfloat16,
        "photos": len(data),
        **training.seen(),
        "calibration": asdict(calibration),
        "held_out_photos": len(covers),
        "held_out": {**quality(network, covers), "accuracy_under_distortion": robustness},
    }
    weights = run / "watermark.safetensors"
    write_results(weights, network.state_dict(), card, settings_of(network))
    return network

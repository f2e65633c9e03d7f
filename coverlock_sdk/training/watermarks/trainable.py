"""From a folder of photos to a weight file with its card, for ``coverlock train watermark``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.images.distortions import EVALUATION, draw_training_distortion
from coverlock_sdk.locking.calibration import Calibration
from coverlock_sdk.training.loop import Figures, Report, require_device
from coverlock_sdk.training.photos import HELD_OUT, Bytes, rounded, split, square
from coverlock_sdk.training.results import write_results
from coverlock_sdk.training.watermarks.photos import TrainingPhotos
from coverlock_sdk.training.watermarks.trainer import (
    Sitting,
    WatermarkRecipe,
    WatermarkTraining,
    train,
)
from coverlock_sdk.watermarking.network import Decoder, Encoder, WatermarkNetwork, in_chunks
from coverlock_sdk.watermarking.weights import settings_of

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
) -> WatermarkNetwork:
    """Train on a folder of photos; ``run`` gets checkpoints, curves, weights and their card.

    A tenth of the photos is held out, the same as for every other training of the SDK; figures
    and calibration come from there.
    """
    place = require_device(device)
    torch.manual_seed(recipe.seed)
    try:
        network = trainable.build(**settings).to(place)
    except (TypeError, ValueError) as error:
        raise CoverLockError(f"the network cannot be built with {settings}: {error}") from error
    training, validation = split(photos, HELD_OUT)
    data = TrainingPhotos(training, network.size, cache or run / "cache")
    covers = _squares(validation[:VALIDATION_PHOTOS], network.size)
    finished = train(
        network, data, recipe, run, lambda trained: quality(trained, covers), report, bfloat16
    )
    network = finished.averaged
    calibration, robustness = examine(network, covers)
    card = {
        "settings": network.settings,
        "recipe": finished.sittings[-1].recipe,
        **_sittings(finished),
        "bfloat16": bfloat16,
        "photos": len(data),
        **finished.seen(),
        **_pace(finished.sittings),
        "calibration": asdict(calibration),
        "held_out_photos": len(covers),
        "held_out": {**quality(network, covers), "accuracy_under_distortion": robustness},
    }
    weights, about = run / "watermark.safetensors", settings_of(network)
    write_results(weights, network.state_dict(), card, about, run.glob("history.json"))
    return network


def quality(network: WatermarkNetwork, covers: Tensor, seed: int = 0) -> Figures:
    """Bit accuracy and PSNR of marked pictures that were rounded to eight bits."""
    marked, messages = _mark(network, covers, seed)
    seen = torch.from_numpy(marked).float() / 255
    mean_squares = (seen - covers).square().mean(dim=(1, 2, 3)).clamp_min(1e-12)
    return {
        "bit_accuracy": _accuracy(in_chunks(Decoder(network), seen), messages),
        "psnr_mean": float((-10 * mean_squares.log10()).mean()),
    }


def examine(
    network: WatermarkNetwork, covers: Tensor, seed: int = 1
) -> tuple[Calibration, Figures]:
    """How far logits can be trusted after a training distortion, and accuracy under the six."""
    marked, messages = _mark(network, covers, seed)
    rng = np.random.default_rng(seed)
    pictures = [np.ascontiguousarray(picture.transpose(1, 2, 0)) for picture in marked]

    def logits_after(change: Callable[[Any], Any]) -> Tensor:
        return in_chunks(Decoder(network), _squares(map(change, pictures), network.size))

    clean = logits_after(lambda picture: picture)
    distorted = logits_after(lambda picture: draw_training_distortion(rng)(picture, rng))
    calibration = Calibration.fit(
        torch.cat([clean, distorted]).numpy(), torch.cat([messages, messages]).numpy()
    )
    robustness = {
        name: _accuracy(logits_after(partial(distortion, rng=rng)), messages)
        for name, distortion in EVALUATION.items()
    }
    return calibration, robustness


def _sittings(run: WatermarkTraining) -> dict[str, Any]:
    """Earlier recipes of a run, which the last one does not show, or that they are unknown."""
    if len(run.sittings) == 1 and run.sittings[0].from_step == 0:
        return {}
    return {
        "sittings": [
            {
                "from_step": sitting.from_step,
                "steps": sitting.steps,
                "recipe": sitting.recipe,
                "settings": sitting.settings,
                **_pace([sitting]),
            }
            for sitting in run.sittings
        ]
    }


def _pace(sittings: Sequence[Sitting]) -> dict[str, Any]:
    """Pictures a second, and the share of the time each phase took; nothing without steps."""
    phases = dict.fromkeys(phase for sitting in sittings for phase in sitting.seconds)
    seconds = {phase: sum(s.seconds.get(phase, 0.0) for s in sittings) for phase in phases}
    whole = sum(seconds.values())
    if not whole:
        return {}
    return {
        "images_per_second": round(sum(sitting.images for sitting in sittings) / whole, 1),
        "seconds_share": {phase: round(spent / whole, 3) for phase, spent in seconds.items()},
    }


def _squares(pictures: Iterable[Any], side: int) -> Tensor:
    """What a network sees of pictures of any kind."""
    return torch.from_numpy(np.stack([square(picture, side) for picture in pictures]))


def _mark(network: WatermarkNetwork, covers: Tensor, seed: int) -> tuple[Bytes, Tensor]:
    """8-bit marked pictures (N, 3, H, W) and the messages in them."""
    rng = np.random.default_rng(seed)
    messages = torch.from_numpy(rng.integers(0, 2, (len(covers), network.bits))).float()
    marked = in_chunks(Encoder(network.eval()), covers, messages)
    return rounded(marked.numpy()), messages


def _accuracy(logits: Tensor, messages: Tensor) -> float:
    return float(((logits > 0) == (messages > 0.5)).float().mean())

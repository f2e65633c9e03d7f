"""Training of the filter: genuine marked pictures against forgeries with the true residual."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from coverlock_plugins.convnext.classifier import Classifier, Scores, scores
from coverlock_sdk import CoverLockError, Watermark
from coverlock_sdk.arrays import Images
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import draw_training_distortion
from coverlock_sdk.images.folders import HELD_OUT, split
from coverlock_sdk.plugin_calls import embed, working_size
from coverlock_training.loop import Figures, Report, Schedule, Training
from coverlock_training.photos import Bytes, cached_rows, rounded
from coverlock_training.results import write_results


@dataclass(frozen=True)
class FilterRecipe(Schedule):
    """How a filter is trained."""

    steps: int = 1800
    batch: int = 16
    rate: float = 1e-3
    weight_decay: float = 0.05
    record_every: int = 100
    pictures: int = 1000
    """Photos that are marked; every one of them lends its residual and receives others'."""
    validation: int = 500
    """Held-out photos, for as many genuine pictures and as many forgeries (appendix G)."""
    distorted: float = 0.5
    """Share of the pictures that are seen under a distortion of the training distribution."""
    clean_start: int = 800
    """Steps before the first distortion, through which nothing would be found at first."""

    def rate_at(self, step: int) -> float:
        """The rate also falls to zero along a cosine."""
        return super().rate_at(step) * (1 + math.cos(math.pi * step / self.steps)) / 2

    def __post_init__(self) -> None:
        """Refuse what could not be meant."""
        if self.batch < 2 or self.batch % 2:
            raise CoverLockError(f"a batch of {self.batch} cannot be half genuine, half forged")


class MarkedPhotos:
    """Photos before and after marking, as 8-bit pictures of the watermark's size."""

    def __init__(self, watermark: Watermark, photos: list[Path], cache: Path, seed: int) -> None:
        self.size = working_size(watermark)

        def marked(photo: Path) -> Bytes:
            cover = rounded(read(photo).view(self.size)[None])
            rng = np.random.default_rng([seed, *photo.name.encode()])
            payload = rng.integers(0, 2, (1, watermark.bits), dtype=np.uint8)
            image = np.divide(cover, 255, dtype=np.float32)
            return np.concatenate([cover, rounded(embed(watermark, image, payload))])

        # One marked picture tells whether the watermark still is the one that marked the others.
        first = hashlib.sha256(marked(photos[0]).tobytes()).hexdigest()
        self.pictures = cached_rows(photos, cache, "marked", marked, first=first, seed=seed)

    def __len__(self) -> int:
        return len(self.pictures)

    def genuine(self, row: int) -> Bytes:
        """A marked picture, (3, H, W)."""
        return self.pictures[row, 1]

    def forged(self, source: int, target: int) -> Bytes:
        """GT@1: the residual of ``source`` on the cover of ``target``."""
        cover, marked = self.pictures[source].astype(np.int16)
        forged: Bytes = np.clip(self.pictures[target, 0] + (marked - cover), 0, 255)
        return forged.astype(np.uint8)

    def seen(self, picture: Bytes, distorted: bool, rng: np.random.Generator) -> Images:
        """What the classifier sees of a picture, as it is or after one distortion."""
        upright = np.ascontiguousarray(np.moveaxis(picture, 0, -1))
        if distorted:
            upright = draw_training_distortion(rng)(upright, rng)
        return read(upright).view(self.size)

    def batch(self, size: int, share: float, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Genuine pictures and forgeries, half of each, and which is which.

        Every picture is there in both forms, so that the residual is what tells them apart. A
        ``share`` of the pairs is distorted, each picture in a way of its own.
        """
        views = []
        for _ in range(size // 2):
            source, target = rng.choice(len(self), 2, replace=False)
            distorted = bool(rng.random() < share)
            for picture in (self.genuine(target), self.forged(source, target)):
                views.append(self.seen(picture, distorted, rng))
        labels = torch.tensor([1.0, 0.0]).repeat(size // 2)
        return torch.from_numpy(np.stack(views)), labels


def train_filter(
    watermark: Watermark,
    photos: Path,
    run: Path,
    recipe: FilterRecipe,
    settings: Mapping[str, Any] | None = None,
    report: Report | None = None,
) -> Path:
    """Train a filter for ``watermark``, and write its weights and card to ``run``.

    An interrupted run goes on from its last checkpoint.
    """
    training, held_out = split(photos, HELD_OUT)
    if min(len(held_out), recipe.validation, recipe.pictures) < 2:
        raise PictureError("a filter needs two photos to learn from and two to be judged by")
    cache = run / "cache"
    data = MarkedPhotos(watermark, training[: recipe.pictures], cache, recipe.seed)
    fresh = MarkedPhotos(watermark, held_out[: recipe.validation], cache, recipe.seed + 1)
    torch.manual_seed(recipe.seed)
    classifier = FilterTraining(Classifier(**(settings or {})), data, recipe, run).run(report)
    card = {
        "watermark": watermark.name,
        "settings": classifier.settings,
        "recipe": asdict(recipe),
        "photos": {"training": len(data), "held_out": len(fresh)},
        "held_out_auc": {
            "clean": held_out_auc(classifier, fresh, distorted=False, seed=recipe.seed),
            "distorted": held_out_auc(classifier, fresh, distorted=True, seed=recipe.seed),
        },
    }
    written = run / "filter.safetensors"
    write_results(written, classifier.state_dict(), card, classifier.about(watermark.name))
    return written


class FilterTraining(Training[Classifier, tuple[Tensor, Tensor]]):
    """Steps on the cross-entropy of genuine pictures and forgeries."""

    def __init__(
        self, classifier: Classifier, data: MarkedPhotos, recipe: FilterRecipe, folder: Path
    ) -> None:
        super().__init__(classifier, recipe, folder)
        self.data, self.recipe = data, recipe

    def notes(self) -> dict[str, Any]:
        """What the run is made with."""
        return {"made_with": json.dumps([self.model.settings, asdict(self.recipe)])}

    def recall(self, notes: dict[str, Any]) -> None:
        """Refuse the checkpoint of a run with other settings."""
        if notes and notes != self.notes():
            raise self.refusal()

    def draw(self, step: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Genuine pictures and forgeries, without distortions at first."""
        share = self.recipe.distorted if step >= self.recipe.clean_start else 0.0
        return self.data.batch(self.recipe.batch, share, rng)

    def learn(self, batch: tuple[Tensor, Tensor]) -> Figures:
        """One step on the cross-entropy."""
        images, labels = batch
        logits = self.model(images)
        loss = functional.binary_cross_entropy_with_logits(logits, labels)
        self.descend(loss)
        right = ((logits > 0) == (labels > 0.5)).float().mean()
        return {"loss": loss.item(), "accuracy": right.item()}


def held_out_auc(classifier: Classifier, data: MarkedPhotos, distorted: bool, seed: int) -> float:
    """ROC-AUC over one genuine picture and one forgery from each photo."""
    rng = np.random.default_rng(seed)
    half = len(data) // 2
    genuine, forged = [], []
    for row in range(len(data)):
        forgery = data.forged(row, (row + half) % len(data))
        genuine.append(data.seen(data.genuine(row), distorted, rng))
        forged.append(data.seen(forgery, distorted, rng))
    return roc_auc(scores(classifier, np.stack(genuine)), scores(classifier, np.stack(forged)))


def roc_auc(positive: Scores, negative: Scores) -> float:
    """The share of pairs in which the positive scores higher; ties count half."""
    difference = positive[:, None] - negative
    return float((difference > 0).mean() + 0.5 * (difference == 0).mean())

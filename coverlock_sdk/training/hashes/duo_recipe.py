"""How ``duo`` is made: two trained networks, and a head that is computed from their features."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from coverlock_sdk.hashing.duo import borrowed
from coverlock_sdk.hashing.duo_network import DuoHead, duo_network
from coverlock_sdk.hashing.network import HashNetwork
from coverlock_sdk.hashing.shipped import shipped_card
from coverlock_sdk.training.hashes.curriculum import Curriculum
from coverlock_sdk.training.hashes.discriminant import Discriminant, Layer, Separation
from coverlock_sdk.training.hashes.recipes import finish
from coverlock_sdk.training.hashes.views import Composition
from coverlock_sdk.training.kinds.collection import kind_of
from coverlock_sdk.training.loop import require_device

COARSE_ZOOMS = (1.0, 0.8, 0.64, 0.51, 0.41, 0.33)
FINE_ZOOMS = (1.0, 0.77, 0.59, 0.46, 0.35, 0.27)

COMPOSITION = Composition(
    crop=0.6,
    area=(0.65, 0.95),
    centred=0.6,
    brightness=0.3,
    brightness_factor=(0.65, 1.45),
    contrast=0.3,
    contrast_factor=(0.65, 1.45),
    noise=0.3,
    rotation=0.1,
    colour=0.15,
)
PHOTOS = Discriminant(shrinkage=0.3, preference=0.6)
TEMPLATES = Discriminant(between_drawn=3.0, templates=1.0, shrinkage=0.05)
GATE = Separation()


@dataclass(frozen=True)
class DuoRecipe:
    """What the head is computed from, and what counts."""

    held_out: float = 0.1
    templates: int = 10
    """Templates of each design that pictures are drawn from."""
    composition: Composition = COMPOSITION
    views: int = 2
    """Distorted views of each picture."""
    seed: int = 0
    photos: Discriminant = PHOTOS
    """How photos are read."""
    drawn: Discriminant = TEMPLATES
    """How pictures of templates are read."""
    gate: Separation = GATE


@dataclass(frozen=True)
class DuoLessons:
    """Both networks, and their features of all pictures that a head is computed from."""

    network: HashNetwork
    curriculum: Curriculum
    features: npt.NDArray[np.float32]
    """(N, 1 + views, D)."""

    @classmethod
    def prepare(cls, photos: Path, run: Path, recipe: DuoRecipe, device: str = "cpu") -> DuoLessons:
        """Those of a folder of photos and of drawn pictures; ``run`` keeps caches.

        The networks are those of the ``nano`` and ``keen`` that ship.
        """
        network = _without_head().to(require_device(device))
        size = network.backbone.size
        lessons = Curriculum.prepare(photos, recipe.held_out, recipe.templates, cache_of(run), size)
        kept = lessons.features(network.backbone, recipe.composition, recipe.views, recipe.seed)
        return cls(network, lessons, np.array(kept.features))

    def compute(self, recipe: DuoRecipe) -> None:
        """Fill the layers of the head that are computed."""
        place = next(self.network.parameters()).device
        head: DuoHead = self.network.head.cpu()
        sampler, features = self.curriculum.sampler, self.features
        count, together = sampler.photos, sampler.together
        rows = torch.from_numpy(features).flatten(0, 1)
        with torch.inference_mode():
            normal = head.normal(rows).reshape(*features.shape).numpy()
            embedding = head.embed(rows).reshape(*features.shape[:2], -1).numpy()
        shared = [kind_of(path).one_template for path in self.curriculum.training[count:]]
        photos, drawn = normal[:count], normal[count:]
        _fill(head.photos, recipe.photos.fit(photos, drawn, together))
        _fill(head.templates, recipe.drawn.fit(embedding[:count], embedding[count:], together))
        _fill(head.gate, recipe.gate.fit(photos, drawn[np.array(shared)]))
        self.network.to(place)


def fit_duo(
    photos: Path, run: Path, recipe: DuoRecipe | None = None, device: str = "cpu"
) -> HashNetwork:
    """Compute the head of ``duo`` from a folder of photos and drawn pictures."""
    recipe = recipe or DuoRecipe()
    lessons = DuoLessons.prepare(photos, run, recipe, device)
    lessons.compute(recipe)
    network, curriculum = lessons.network, lessons.curriculum
    computed = ("head.photos.", "head.templates.", "head.gate.")
    kept = cache_of(run)
    finish(
        network, network, recipe, curriculum.photos, run, kept, False, curriculum.judge, computed
    )
    return network


def cache_of(run: Path) -> Path:
    """Where a run keeps pictures and features."""
    return run / "cache"


def _fill(layer: nn.Linear, values: Layer) -> None:
    weight, bias = (torch.from_numpy(value) for value in values)
    layer.load_state_dict({"weight": weight, "bias": bias})


def _without_head() -> HashNetwork:
    """Both networks as they ship, through one window more each."""
    coarse, fine = (dict(shipped_card(name)["network"]) for name in ("nano", "keen"))
    coarse |= {"size": fine["size"], "zooms": COARSE_ZOOMS}
    fine |= {"zooms": FINE_ZOOMS}
    network = duo_network(coarse, fine)
    weights = {name: torch.from_numpy(value) for name, value in borrowed().items()}
    network.load_state_dict(weights, strict=False)
    return network.eval()

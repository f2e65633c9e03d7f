"""What a hash for every kind of picture learns from, and what it is validated on.

Photos and drawn pictures together; any backbone can be trained on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coverlock_sdk.hashing.network import Backbone, HashNetwork
from coverlock_sdk.training.hashes.features import (
    CachedFeatures,
    codes_of_network,
    evaluation_features,
)
from coverlock_sdk.training.hashes.figures import Codes, figures_of
from coverlock_sdk.training.hashes.kind_figures import kind_figures
from coverlock_sdk.training.hashes.sampling import WithGroups
from coverlock_sdk.training.hashes.trainer import Hasher
from coverlock_sdk.training.hashes.views import (
    ComposedViews,
    Composition,
    clean_views,
    evaluation_views,
)
from coverlock_sdk.training.kinds.collection import TOGETHER, draw_groups, draw_sets
from coverlock_sdk.training.loop import Figures
from coverlock_sdk.training.photos import names_digest, split

WATCHED = 300
"""Held-out photos that are looked at while a network is trained; in the end it is all of them."""

PER_SET = 16
"""Drawn pictures of a kind that are compared with one another in validation."""


@dataclass(frozen=True)
class Curriculum:
    """Training pictures with their sampler, held-out photos, and held-out sets of drawn ones."""

    training: list[Path]
    sampler: WithGroups
    photos: list[Path]
    kinds: dict[str, list[list[Path]]]
    cache: Path
    side: int
    """Of the cached training pictures: that of the network's input."""

    @classmethod
    def prepare(
        cls, photos: Path, held_out: float, templates: int, cache: Path, side: int
    ) -> Curriculum:
        """Split the photos and draw the pictures, of which ``cache`` keeps files."""
        training, validation = split(photos, held_out)
        drawn = draw_groups(cache / "pictures", templates, training)
        sampler = WithGroups(len(training), len(drawn) // TOGETHER, TOGETHER)
        kinds = draw_sets(cache / "pictures", "validation", PER_SET, validation)
        return cls(training + drawn, sampler, validation, kinds, cache, side)

    def views(
        self, size: int, composition: Composition, zooms: Sequence[float] = (1.0,)
    ) -> ComposedViews:
        """Composed views of all training pictures, from one cache for every size."""
        return ComposedViews(
            self.training,
            size,
            self.cache,
            composition,
            zooms=zooms,
            cached=self.side,
            jpegs=1,
            shared=1,
        )

    def features(
        self, backbone: Backbone, composition: Composition, views: int, seed: int
    ) -> CachedFeatures:
        """Features of ``views`` composed views of each training picture."""
        key = f"{names_digest(self.training)}, {composition}"
        data = self.views(backbone.size, composition)
        return CachedFeatures(backbone, data, views, self.cache, key=key, seed=seed)

    def watch(self, size: int, model: Hasher) -> Figures:
        """The figures of a network that takes pictures of ``size``, on a part of the photos."""
        photos = evaluation_views(self.photos[:WATCHED], size, self.cache)
        return _figures(codes_of_network(model, photos), self._codes(size, model))

    def judge(self, network: HashNetwork) -> Figures:
        """The figures of a finished network on all held-out pictures."""
        pooled = evaluation_features(network.backbone, self.photos, self.cache)
        photos = codes_of_network(network.head, pooled)
        return _figures(photos, self._codes(network.backbone.size, network))

    def _codes(self, size: int, model: Hasher) -> dict[str, list[Codes]]:
        """The codes of every set of drawn pictures."""
        return {
            name: [codes_of_network(model, clean_views(s, size, self.cache))[:, 0] for s in sets]
            for name, sets in self.kinds.items()
        }


def _figures(photos: Codes, kinds: Mapping[str, Sequence[Codes]]) -> Figures:
    """Those of the photos, the mean over kinds, and each kind by name."""
    by_kind = kind_figures(kinds)
    return {
        **figures_of(photos),
        "kinds_mean": float(np.mean([row["mean"] for row in by_kind.values()])),
        "kinds_accepted_64": float(np.mean([row["accepted_64"] for row in by_kind.values()])),
        **{name: row["mean"] for name, row in by_kind.items()},
    }

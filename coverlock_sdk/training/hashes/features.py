"""What a network makes of pictures: features, logits and codes; features are cached.

A frozen backbone computes them once, so that its head trains at the speed of a small MLP.
The paper draws a fresh distortion each time a picture is seen. With a frozen backbone the
features of V drawn views per picture can be kept instead; V is part of the run's record.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from coverlock_sdk.arrays import Logits
from coverlock_sdk.hashing.network import Backbone
from coverlock_sdk.training.cache import remembered
from coverlock_sdk.training.hashes.figures import Codes
from coverlock_sdk.training.hashes.trainer import Hasher
from coverlock_sdk.training.hashes.views import Pairs, Rows, evaluation_views
from coverlock_sdk.training.photos import Bytes, names_digest

Features = npt.NDArray[np.float32]


class CachedFeatures:
    """Features (N, 1 + V, D) of each picture: clean, and in V distorted views."""

    def __init__(
        self,
        backbone: Backbone,
        data: Pairs,
        views: int,
        cache: Path,
        *,
        key: str,
        seed: int = 0,
    ) -> None:
        def compute(rows: Rows) -> Features:
            drawn = [
                data.pairs(rows, np.random.default_rng([seed, int(rows[0]), view]))
                for view in range(views)
            ]
            stack = [drawn[0][0], *(distorted for _, distorted in drawn)]
            return np.stack([features_of(backbone, images) for images in stack], axis=1)

        settings = {"data": key, "backbone": fingerprint(backbone), "views": views, "seed": seed}
        self.features: Features = remembered(
            cache, "features", settings, compute, len(data), label="features of training pictures"
        )

    def __len__(self) -> int:
        return len(self.features)

    def pairs(self, rows: Rows, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Features (len(rows), D) of the clean pictures and of one drawn view of each."""
        view = rng.integers(1, self.features.shape[1], len(rows))
        return torch.from_numpy(self.features[rows, 0]), torch.from_numpy(self.features[rows, view])


def features_of(backbone: Backbone, images: Tensor) -> Features:
    """Pooled features (N, D) of pictures (N, 3, size, size), without gradients."""
    backbone.eval()
    device = next(backbone.parameters()).device
    with torch.inference_mode():
        features: Features = backbone(images.to(device)).float().cpu().numpy()
    return features


def evaluation_features(backbone: Backbone, paths: list[Path], cache: Path) -> Features:
    """Features (N, 7, D) of held-out pictures, clean and under the six evaluation distortions."""
    views = evaluation_views(paths, backbone.size, cache)
    return remembered(
        cache,
        "evaluation-features",
        {"pictures": names_digest(paths), "backbone": fingerprint(backbone)},
        lambda rows: np.stack([features_of(backbone, as_inputs(views[row])) for row in rows]),
        len(paths),
        label="features of held-out pictures",
    )


def codes_of_network(model: Hasher, inputs: Bytes | Features) -> Codes:
    """The codes (N, V, 256) of 8-bit views (N, V, 3, H, W) or of features (N, V, D)."""
    model.eval()
    return np.stack([logits_of(model, as_inputs(row)) > 0 for row in inputs])


def logits_of(model: Hasher, inputs: Tensor) -> Logits:
    """The logits of pictures or features, wherever the model is."""
    device = next(model.parameters()).device
    with torch.inference_mode():
        logits: Logits = model(inputs.to(device)).cpu().numpy()
    return logits


def as_inputs(row: Bytes | Features) -> Tensor:
    """What a network takes: pictures in [0, 1] instead of 8-bit ones, and features as they are."""
    values = torch.from_numpy(np.array(row))
    return values / 255 if values.dtype == torch.uint8 else values


def fingerprint(backbone: Backbone) -> str:
    """A digest of all that decides over the backbone's features: its settings and weights."""
    digest = hashlib.sha256(json.dumps(backbone.settings, sort_keys=True).encode())
    for name, value in sorted(backbone.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()

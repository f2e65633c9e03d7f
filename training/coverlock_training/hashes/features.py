"""Pooled features of photos under distortions, computed once by a frozen backbone and kept.

The paper draws a fresh distortion each time a photo is seen. With a frozen backbone the features of
V drawn views per photo can be kept instead, and a head trains at the speed of a small MLP.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from coverlock_plugins.dinov2.head import Backbone
from coverlock_plugins.networks.network import in_chunks
from coverlock_sdk.images.distortions import EVALUATION, draw_training_distortion
from coverlock_training.photos import Bytes, cached_rows, rgb, shrunk

Features = npt.NDArray[np.float32]


def training_features(
    backbone: Backbone, paths: Sequence[Path], views: int, cache: Path, seed: int = 0
) -> Features:
    """Features (N, 1 + views, D): clean, and under draws of the paper's training distortions."""

    def drawn(picture: Bytes, rng: np.random.Generator) -> Iterable[Bytes]:
        return (draw_training_distortion(rng)(picture, rng) for _ in range(views))

    return _kept(backbone, paths, cache, "training", drawn, seed, views=views)


def evaluation_features(
    backbone: Backbone, paths: Sequence[Path], cache: Path, seed: int = 0
) -> Features:
    """Features (N, 8, D): clean, under the six evaluation distortions, under one training draw."""

    def evaluated(picture: Bytes, rng: np.random.Generator) -> Iterable[Bytes]:
        yield from (distort(picture, rng) for distort in EVALUATION.values())
        yield draw_training_distortion(rng)(picture, rng)

    return _kept(backbone, paths, cache, "held-out", evaluated, seed)


def _kept(
    backbone: Backbone,
    paths: Sequence[Path],
    cache: Path,
    part: str,
    distorted: Callable[[Bytes, np.random.Generator], Iterable[Bytes]],
    seed: int,
    **settings: int,
) -> Features:
    """Features of each photo and of what ``distorted`` makes of it; its name seeds the draws."""

    def row(path: Path) -> Features:
        picture, rng = rgb(path), np.random.default_rng([seed, *path.name.encode()])
        seen = [shrunk(view, backbone.size) for view in (picture, *distorted(picture, rng))]
        return features_of(backbone, torch.from_numpy(np.stack(seen)))

    made_with = {**settings, "seed": seed, "backbone": fingerprint(backbone)}
    return cached_rows(paths, cache, f"{part}-features", row, **made_with)


def features_of(backbone: Backbone, images: Tensor) -> Features:
    """Pooled features (N, D) of pictures (N, 3, size, size), without gradients."""
    return in_chunks(backbone.eval(), images).float().numpy()


def fingerprint(backbone: Backbone) -> str:
    """A digest of all that decides over the backbone's features: its settings and weights."""
    digest = hashlib.sha256(json.dumps(backbone.settings, sort_keys=True).encode())
    for name, value in sorted(backbone.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()

"""Behavioural signatures of high transferability (section 3.2 and appendix C of the paper).

A watermark that ignores the picture leaves the same residual everywhere, and its decoder's features
follow only the message. Both show before any attack is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from coverlock_bench.ledger import NotMeasuredError
from coverlock_sdk import Watermark
from coverlock_sdk.arrays import Images
from coverlock_sdk.errors import MissingModelError, PluginError
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.picture import stacked_views
from coverlock_sdk.plugin_calls import embed, working_size

if TYPE_CHECKING:
    import torch

GROUP = 5
"""Covers whose residuals are averaged, as in the paper's figure 1."""


@dataclass(frozen=True)
class ResidualPatterns:
    """Residuals of one message on different covers, alone and averaged over groups of five."""

    marked: Images
    """The first marked picture of each group (groups, 3, H, W)."""
    single: Images
    """The residual of that picture."""
    averaged: Images
    """The mean residual of its group."""
    single_correlation: float
    """Mean correlation of single residuals of different covers."""
    averaged_correlation: float
    """Mean correlation of the averages of disjoint groups: near 1 if the mark ignores covers."""


@dataclass(frozen=True)
class FeatureVariation:
    """How much the decoder's last features follow the cover, and how much the message."""

    cover: float
    """Share of the variance from covers under one message; adds up to 1 with ``message``."""
    message: float
    layer: str
    """Where the features were taken: the input of this layer of the decoder module."""
    shape: tuple[int, ...]
    covers: int
    messages: int


def residual_patterns(
    watermark: Watermark, pictures: Sequence[Any], groups: int = 2, seed: int = 0
) -> ResidualPatterns:
    """Mark ``groups`` disjoint groups of five covers with one message and compare residuals."""
    needed = groups * GROUP
    if len(pictures) < needed:
        raise NotMeasuredError(
            f"comparing {groups} groups of {GROUP} covers needs {needed} pictures, "
            f"but there are {len(pictures)}"
        )
    rng = np.random.default_rng(seed)
    message = rng.integers(0, 2, watermark.bits, dtype=np.uint8)
    chosen = rng.permutation(len(pictures))[:needed]
    covers = stacked_views([read(pictures[i]) for i in chosen], working_size(watermark))
    marked = embed(watermark, covers, np.tile(message, (needed, 1)))
    residuals = (marked - covers).reshape(groups, GROUP, *covers.shape[1:])
    averaged = residuals.mean(axis=1)
    return ResidualPatterns(
        marked=marked[::GROUP],
        single=residuals[:, 0],
        averaged=averaged,
        single_correlation=_mean_correlation(residuals.reshape(needed, -1)),
        averaged_correlation=_mean_correlation(averaged.reshape(groups, -1)),
    )


def feature_variation(
    watermark: Watermark, pictures: Sequence[Any], covers: int = 5, messages: int = 5, seed: int = 0
) -> FeatureVariation:
    """Compare cover-induced with message-induced variance at the decoder's last feature layer.

    Every one of ``covers`` carries every one of ``messages``. The variance over covers under a
    fixed message, and over messages on a fixed cover, are averaged over features and scaled to
    sum to 1.
    """
    decoder = watermark.decoder_module()
    if decoder is None:
        raise MissingModelError(
            f"the watermark '{watermark.name}' has no decoder_module(): "
            "its features cannot be measured"
        )
    if len(pictures) < covers:
        raise NotMeasuredError(
            f"feature variation over {covers} covers needs that many pictures, "
            f"but there are {len(pictures)}"
        )
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(pictures))[:covers]
    views = stacked_views([read(pictures[i]) for i in chosen], working_size(watermark))
    payloads = rng.integers(0, 2, (messages, watermark.bits), dtype=np.uint8)
    name = watermark.feature_layer or _last_feature_layer(decoder, views[:1])
    by_cover: list[Any] = [0.0] * covers
    by_message: list[Any] = [0.0] * messages
    squares, shape = 0.0, ()
    # Features can be as large as the picture, so keep only sums.
    for row, payload in enumerate(payloads):
        marked = embed(watermark, views, np.tile(payload, (covers, 1)))
        for column, feature in enumerate(_features(decoder, name, marked)):
            by_cover[column] = by_cover[column] + feature
            by_message[row] = by_message[row] + feature
            squares += float(np.square(feature, dtype=np.float64).sum())
            shape = feature.shape
    total = squares / (covers * messages)
    over_covers = (total - _mean_square(by_message, covers)) * covers / (covers - 1)
    over_messages = (total - _mean_square(by_cover, messages)) * messages / (messages - 1)
    both = over_covers + over_messages
    if not both > 0:
        raise PluginError(f"the features of '{watermark.name}' at {name} never change")
    return FeatureVariation(over_covers / both, over_messages / both, name, shape, covers, messages)


def _mean_square(sums: list[npt.NDArray[np.float32]], count: int) -> float:
    """The squared length of the mean features, averaged over the fixed side."""
    lengths = [float(np.square(total / count, dtype=np.float64).sum()) for total in sums]
    return sum(lengths) / len(lengths)


def _features(
    decoder: torch.nn.Module, name: str, images: Images
) -> Iterator[npt.NDArray[np.float32]]:
    """The input of layer ``name`` for each of ``images``."""
    import torch

    taken: list[npt.NDArray[np.float32]] = []
    layers = dict(decoder.named_modules())
    if name not in layers:
        raise PluginError(f"the decoder module has no layer '{name}'; it has {', '.join(layers)}")
    hook = layers[name].register_forward_pre_hook(
        lambda _, inputs: taken.append(inputs[0].detach()[0].numpy().copy())
    )
    try:
        with torch.no_grad():
            for image in images:
                taken.clear()
                _run(decoder, image[None])
                yield taken[-1]
    finally:
        hook.remove()


def _run(decoder: torch.nn.Module, images: Images) -> None:
    import torch

    try:
        decoder(torch.from_numpy(images))
    except Exception as error:
        raise PluginError(f"the decoder module failed: {type(error).__name__}: {error}") from error


def _last_feature_layer(decoder: torch.nn.Module, image: Images) -> str:
    """The layer whose input is the decoder's last features.

    That is the last linear, average-pooling or convolution layer to run, or the pooling right
    before a last linear layer, where features become answers. Pooling by a function cannot be
    found. If this choice is wrong for a watermark, it names the layer in ``feature_layer``.
    """
    import torch
    from torch import nn

    pooling = (nn.AdaptiveAvgPool2d, nn.AvgPool2d)
    kinds = (nn.Linear, nn.Conv2d, *pooling)
    order: list[tuple[str, nn.Module]] = []
    hooks = [
        layer.register_forward_pre_hook(lambda layer, _, name=name: order.append((name, layer)))
        for name, layer in decoder.named_modules()
        if isinstance(layer, kinds)
    ]
    try:
        with torch.no_grad():
            _run(decoder, image)
    finally:
        for hook in hooks:
            hook.remove()
    if not order:
        raise PluginError(
            "the decoder module has no linear, pooling or convolution layer: name the layer whose "
            "input are its features in the watermark's 'feature_layer'"
        )
    name, layer = order[-1]
    if isinstance(layer, nn.Linear) and len(order) > 1 and isinstance(order[-2][1], pooling):
        name = order[-2][0]
    return name


def _mean_correlation(rows: npt.NDArray[np.float32]) -> float:
    pairs = combinations(rows, 2)
    return float(np.mean([np.corrcoef(a, b)[0, 1] for a, b in pairs]))

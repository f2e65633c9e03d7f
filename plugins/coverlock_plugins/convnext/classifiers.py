"""Networks that tell genuine marked pictures from forged ones: one logit, above zero is genuine.

The three kinds of appendix G. Widths are small enough for a CPU unless a larger shape is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from coverlock_plugins.convnext.network import TINY, ConvNeXt, Shape
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.hashing import nano
from coverlock_sdk.resampling import resample_matrix

SMALL = Shape((2, 2, 4, 2), (24, 48, 96, 192))


class Classifier(nn.Module):
    """Pictures (N, 3, H, W) in [0, 1] to logits (N,)."""

    settings: dict[str, Any]
    """What it takes to build this classifier again, besides its weights."""


class ConvNeXtClassifier(Classifier):
    """A ConvNeXt with a single class."""

    def __init__(
        self, depths: Sequence[int] = SMALL.depths, widths: Sequence[int] = SMALL.widths
    ) -> None:
        super().__init__()
        self.settings = {"depths": list(depths), "widths": list(widths)}
        # From scratch and in a few thousand steps, blocks have to count from the start.
        self.network = ConvNeXt(Shape(depths, widths), classes=1, layer_scale=1.0)

    def forward(self, images: Tensor) -> Tensor:
        """The logit of each picture."""
        logits: Tensor = self.network(2 * images - 1)[:, 0]
        return logits


class ResNetClassifier(Classifier):
    """Residual blocks of two 3x3 convolutions (He et al. 2015), halving the side between stages."""

    def __init__(
        self, depths: Sequence[int] = (2, 2, 2, 2), widths: Sequence[int] = (24, 48, 96, 192)
    ) -> None:
        super().__init__()
        self.settings = {"depths": list(depths), "widths": list(widths)}
        layers: list[nn.Module] = [
            nn.Conv2d(3, widths[0], kernel_size=7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(widths[0]),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
        ]
        before = widths[0]
        for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
            for block in range(depth):
                stride = 2 if stage and not block else 1
                layers.append(ResidualBlock(before, width, stride))
                before = width
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(before, 1)

    def forward(self, images: Tensor) -> Tensor:
        """The logit of each picture."""
        pooled = self.body(2 * images - 1).mean(dim=(2, 3))
        logits: Tensor = self.head(pooled)[:, 0]
        return logits


class ResidualBlock(nn.Module):
    """Two convolutions beside a skip connection, which a third one fits where shapes change."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(after)
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            shortcut = nn.Conv2d(before, after, 1, stride=stride, bias=False)
            self.skip = nn.Sequential(shortcut, nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        """(N, before, H, W) -> (N, after, H / stride, W / stride)."""
        y = self.second_norm(self.second(functional.relu(self.first_norm(self.first(x)))))
        return functional.relu(y + self.skip(x))


class FrozenFeatures(Classifier):
    """A two-layer network on the frozen features of ``nano``, where the paper has DINOv2-G."""

    def __init__(self, hidden: int = 256) -> None:
        super().__init__()
        self.settings = {"hidden": hidden}
        # A list hides the frozen network from state_dict(): it ships with the SDK already.
        self._frozen = [nano.network().backbone.requires_grad_(False).eval()]
        features = self._frozen[0].features
        self.head = nn.Sequential(
            nn.LayerNorm(features), nn.Linear(features, hidden), nn.GELU(), nn.Linear(hidden, 1)
        )

    def forward(self, images: Tensor) -> Tensor:
        """The logit of each picture."""
        [frozen] = self._frozen
        down, across = (
            torch.tensor(resample_matrix(side, frozen.size)).to(images) for side in images.shape[2:]
        )
        with torch.no_grad():
            features = frozen.to(images.device)(down @ images @ across.T)
        logits: Tensor = self.head(features)[:, 0]
        return logits


BACKBONES: dict[str, type[Classifier]] = {
    "convnext": ConvNeXtClassifier,
    "resnet": ResNetClassifier,
    "features": FrozenFeatures,
}


PUBLISHED: dict[str, dict[str, Any]] = {
    "convnext": {"depths": TINY.depths, "widths": TINY.widths},
    "resnet": {"widths": (64, 128, 256, 512)},
    "features": {},
}
"""Sizes for a GPU: the paper's ConvNeXt-Tiny, and a ResNet-18 where it has a ResNet-50."""


def build(backbone: str, **settings: Any) -> Classifier:
    """A classifier by the name of its backbone, untrained."""
    if backbone not in BACKBONES:
        raise CoverLockError(f"'{backbone}' is not a backbone: use {', '.join(BACKBONES)}")
    return BACKBONES[backbone](**settings)

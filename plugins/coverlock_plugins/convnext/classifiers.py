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
from coverlock_plugins.convnext.resnet import ResNet50
from coverlock_plugins.dinov2.hash import load_backbone
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.images.resampling import resample_matrix

SMALL = Shape((2, 2, 4, 2), (24, 48, 96, 192))
TEXTURE_WINDOW, TEXTURE_GAIN = 5, 8.0


class Classifier(nn.Module):
    """Pictures (N, 3, H, W) in [0, 1] to logits (N,)."""

    settings: dict[str, Any]
    """What it takes to build this classifier again, besides its weights."""


def texture(images: Tensor) -> Tensor:
    """What pictures have beyond their surroundings, made large.

    A mark is faint. A small network that learns from scratch does not find it under the picture.
    """
    reach = TEXTURE_WINDOW // 2
    padded = functional.pad(images, (reach,) * 4, mode="reflect")
    return TEXTURE_GAIN * (images - functional.avg_pool2d(padded, TEXTURE_WINDOW, stride=1))


class TrainedClassifier(Classifier):
    """A network that learns from pictures, or from their texture alone."""

    def __init__(self, network: nn.Module, sees_texture: bool, **settings: Any) -> None:
        super().__init__()
        self.settings = {**settings, "sees_texture": sees_texture}
        self.view = texture if sees_texture else _centred
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """The logit of each picture."""
        return self.network(self.view(images))[:, 0]


class ConvNeXtClassifier(TrainedClassifier):
    """A ConvNeXt with a single class."""

    def __init__(
        self,
        depths: Sequence[int] = SMALL.depths,
        widths: Sequence[int] = SMALL.widths,
        sees_texture: bool = True,
    ) -> None:
        # From scratch and in a few thousand steps, blocks have to count from the start.
        network = ConvNeXt(Shape(depths, widths), classes=1, layer_scale=1.0)
        super().__init__(network, sees_texture, depths=list(depths), widths=list(widths))


class ResNetClassifier(TrainedClassifier):
    """A ResNet-50 with a single class."""

    def __init__(self, width: int = 16, sees_texture: bool = True) -> None:
        super().__init__(ResNet50(classes=1, width=width), sees_texture, width=width)


class FrozenFeatures(Classifier):
    """A two-layer network on the frozen features of a DINOv2, as in the paper."""

    def __init__(self, hidden: int = 256, frozen: str = "dinov2-s") -> None:
        super().__init__()
        self.settings = {"hidden": hidden, "frozen": frozen}
        # A list hides the frozen network from state_dict(): it has a file of its own.
        self._frozen = [load_backbone(frozen)]
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
        return self.head(features)[:, 0]


BACKBONES: dict[str, type[Classifier]] = {
    "convnext": ConvNeXtClassifier,
    "resnet": ResNetClassifier,
    "features": FrozenFeatures,
}


PUBLISHED: dict[str, dict[str, Any]] = {
    "convnext": {"depths": TINY.depths, "widths": TINY.widths, "sees_texture": False},
    "resnet": {"width": 64, "sees_texture": False},
    "features": {"frozen": "dinov2-g"},
}
"""Sizes for a GPU: the paper's ConvNeXt-Tiny, ResNet-50 and DINOv2-G."""


def build(backbone: str, **settings: Any) -> Classifier:
    """A classifier by the name of its backbone, untrained."""
    if backbone not in BACKBONES:
        raise CoverLockError(f"'{backbone}' is not a backbone: use {', '.join(BACKBONES)}")
    return BACKBONES[backbone](**settings)


def _centred(images: Tensor) -> Tensor:
    """Pictures in [-1, 1]."""
    return 2 * images - 1

"""The paper's hash as PyTorch modules (appendix B.1): pooling, head, and the two together."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from coverlock_sdk.hashing.projection import orthogonal_projection

EMBEDDING = 512
"""Width of the head's hidden layer and of its embedding (D in the paper)."""

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Mean and deviation of the colours that pretrained networks expect."""


class Backbone(nn.Module):
    """Pictures (N, 3, size, size) in [0, 1] to pooled features (N, features)."""

    size: int
    features: int
    settings: dict[str, Any]
    """What it takes to build this backbone again, besides its weights."""


class FrozenBackbone(Backbone):
    """A pretrained network whose patches, or last feature map, are pooled as the paper does."""

    mean: Tensor
    deviation: Tensor

    def __init__(
        self, model: nn.Module, size: int, channels: int, settings: dict[str, Any]
    ) -> None:
        super().__init__()
        self.model = model.requires_grad_(False).eval()
        self.size, self.features, self.settings = size, 2 * channels, settings
        for name, values in zip(("mean", "deviation"), IMAGENET, strict=True):
            self.register_buffer(name, torch.tensor(values).view(3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """(N, 3, size, size) in [0, 1] -> mean and deviation of each channel, (N, features)."""
        return pool_patches(self.patches((images - self.mean) / self.deviation))

    def patches(self, images: Tensor) -> Tensor:
        """The features (N, P, channels) of each place; a feature map has one in each pixel."""
        features: Tensor = self.model(images)
        return features.flatten(2).transpose(1, 2)

    def train(self, mode: bool = True) -> FrozenBackbone:
        """Stay in evaluation mode: the backbone is frozen."""
        return super().train(False)


def pool_patches(patches: Tensor) -> Tensor:
    """s(x) = [mean; std] over patches, channel by channel: (N, P, d) -> (N, 2d)."""
    return torch.cat([patches.mean(dim=1), patches.std(dim=1, correction=0)], dim=1)


class HashHead(nn.Module):
    """The paper's head: pooled features to a unit embedding, and on to logits."""

    projection: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.hidden = nn.Linear(features, EMBEDDING)
        self.output = nn.Linear(EMBEDDING, EMBEDDING)
        # With the unit embedding spread evenly, logits start at magnitude one.
        self.log_scale = nn.Parameter(torch.tensor(float(EMBEDDING)).sqrt().log())
        self.register_buffer("projection", torch.from_numpy(orthogonal_projection(EMBEDDING)))

    def embed(self, pooled: Tensor) -> Tensor:
        """e(x), of unit length: (N, features) -> (N, 512)."""
        h = self.output(functional.gelu(self.hidden(self.norm(pooled))))
        return functional.normalize(h, dim=1)

    def logits_of(self, embedding: Tensor) -> Tensor:
        """z(x) = alpha R^T e(x): (N, 512) -> (N, 256)."""
        return self.log_scale.exp() * embedding @ self.projection

    def forward(self, pooled: Tensor) -> Tensor:
        """Pooled features (N, features) to hash logits (N, 256)."""
        return self.logits_of(self.embed(pooled))


class HashNetwork(nn.Module):
    """A backbone and the head on top of it: pictures in, logits out."""

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = HashHead(backbone.features)

    def forward(self, images: Tensor) -> Tensor:
        """Pictures (N, 3, size, size) in [0, 1] to hash logits (N, 256)."""
        logits: Tensor = self.head(self.backbone(images))
        return logits

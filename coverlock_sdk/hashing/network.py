"""The networks of the hash: the paper's head, and the backbone of ``nano``, the hash that ships.

Everything here is PyTorch and is needed for training and export only; ``nano`` itself runs on
NumPy (see ``coverlock_sdk.hashing.windowed``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from coverlock_sdk.hashing.projection import orthogonal_projection
from coverlock_sdk.images.resampling import window_matrix

EMBEDDING = 512
"""Width of the head's hidden layer and of its embedding (D in the paper)."""


IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
"""Mean and deviation of the colours that most pretrained networks expect."""


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
        self,
        model: nn.Module,
        size: int,
        channels: int,
        settings: dict[str, Any],
        colours: tuple[Sequence[float], Sequence[float]] = IMAGENET,
    ) -> None:
        super().__init__()
        self.model = model.requires_grad_(False).eval()
        self.size, self.features, self.settings = size, 2 * channels, settings
        for name, values in zip(("mean", "deviation"), colours, strict=True):
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


class Embedding(nn.Module):
    """The first part of the paper's head (appendix B.1): pooled features to an embedding."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.hidden = nn.Linear(features, EMBEDDING)
        self.output = nn.Linear(EMBEDDING, EMBEDDING)

    def embed(self, pooled: Tensor) -> Tensor:
        """e(x), of unit length: (N, features) -> (N, 512)."""
        h = self.output(functional.gelu(self.hidden(self.norm(pooled))))
        return functional.normalize(h, dim=1)


class HashHead(Embedding):
    """The paper's head: pooled features to an embedding, and on to logits."""

    projection: Tensor

    def __init__(self, features: int) -> None:
        super().__init__(features)
        # With the unit embedding spread evenly, logits start at magnitude one.
        self.log_scale = nn.Parameter(torch.tensor(float(EMBEDDING)).sqrt().log())
        self.register_buffer("projection", torch.from_numpy(orthogonal_projection(EMBEDDING)))

    def logits_of(self, embedding: Tensor) -> Tensor:
        """z(x) = alpha R^T e(x): (N, 512) -> (N, 256)."""
        return self.log_scale.exp() * embedding @ self.projection

    def forward(self, pooled: Tensor) -> Tensor:
        """Pooled features (N, features) to hash logits (N, 256)."""
        return self.logits_of(self.embed(pooled))


class HashNetwork(nn.Module):
    """A backbone and the head on top of it, the paper's by default: pictures in, logits out."""

    def __init__(self, backbone: Backbone, head: nn.Module | None = None) -> None:
        super().__init__()
        self.backbone = backbone
        self.head: Any = HashHead(backbone.features) if head is None else head

    def embed(self, images: Tensor) -> Tensor:
        """Pictures (N, 3, size, size) in [0, 1] to unit embeddings (N, 512)."""
        embedding: Tensor = self.head.embed(self.backbone(images))
        return embedding

    def logits_of(self, embedding: Tensor) -> Tensor:
        """Unit embeddings (N, 512) to hash logits (N, 256)."""
        logits: Tensor = self.head.logits_of(embedding)
        return logits

    def forward(self, images: Tensor) -> Tensor:
        """Pictures (N, 3, size, size) in [0, 1] to hash logits (N, 256)."""
        logits: Tensor = self.head(self.backbone(images))
        return logits


class NanoBackbone(Backbone):
    """A small residual CNN that looks at a picture through concentric windows.

    A crop about the centre is a step from one window towards the next, so the mean over windows
    moves less than each of them does.
    """

    windows: Tensor

    def __init__(
        self,
        size: int = 96,
        side: int = 64,
        zooms: Sequence[float] = (1.0, 0.8, 0.64, 0.51, 0.41),
        widths: Sequence[int] = (32, 64, 160),
        depths: Sequence[int] = (1, 2, 2),
        layouts: int = 2,
        channels: int = 3,
    ) -> None:
        super().__init__()
        windows = np.stack([window_matrix(size, side, zoom) for zoom in zooms])
        self.register_buffer("windows", torch.from_numpy(windows), persistent=False)
        layers: list[nn.Module] = [*_reduce(channels, widths[0], kernel=6, step=4)]
        for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            if stage:
                layers += _reduce(widths[stage - 1], width, kernel=2, step=2)
            layers += [Residual(width) for _ in range(depth)]
        self.body = nn.Sequential(*layers)
        last, grid = widths[-1], side // 2 ** (len(widths) + 1)
        self.layout = nn.Conv2d(last, last * layouts, grid, groups=last, bias=False)
        nn.init.normal_(self.layout.weight, std=1 / grid**2)
        self.size, self.side, self.zooms = size, side, tuple(zooms)
        self.features = last * (2 + layouts)
        self.settings = {
            "size": size,
            "side": side,
            "zooms": list(zooms),
            "widths": list(widths),
            "depths": list(depths),
            "layouts": layouts,
        }

    def forward(self, images: Tensor) -> Tensor:
        """The pooled features (N, features) of pictures (N, 3, size, size), over all windows."""
        seen = self.windows @ images[:, :, None] @ self.windows.transpose(-1, -2)
        views = seen.transpose(1, 2)  # (N, windows, 3, side, side)
        pooled = self.pool(views.flatten(0, 1))
        return pooled.reshape(-1, len(self.windows), pooled.shape[1]).mean(dim=1)

    def pool(self, views: Tensor) -> Tensor:
        """Mean, deviation and learned layouts of each view's feature map: (N, 3, side, side)."""
        x = self.body(self.see(views))  # (N, C, grid, grid)
        mean = x.mean(dim=(2, 3))
        deviation = (x - mean[:, :, None, None]).square().mean(dim=(2, 3)).add(1e-6).sqrt()
        return torch.cat([mean, deviation, self.layout(x).flatten(1)], dim=1)

    def see(self, views: Tensor) -> Tensor:
        """What the network is given of each view."""
        return normalise(views)


class Residual(nn.Module):
    """Two 3x3 convolutions beside a skip connection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        """(N, width, H, W) -> the same."""
        y = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(x + self.second_norm(self.second(y)))


def _reduce(before: int, after: int, kernel: int, step: int) -> list[nn.Module]:
    """A convolution that divides the side by ``step``."""
    padding = (kernel - step) // 2
    convolution = nn.Conv2d(before, after, kernel, stride=step, padding=padding, bias=False)
    return [convolution, nn.BatchNorm2d(after), nn.ReLU()]


def normalise(images: Tensor) -> Tensor:
    """Undo brightness and contrast, and squash the extremes, which they may have clipped."""
    centred = images - mean_of_picture(images)
    deviation = mean_of_picture(centred.square()).add(1e-4).sqrt()
    x = centred / deviation
    return x / (1 + x.square()).sqrt()


def mean_of_picture(values: Tensor) -> Tensor:
    """The mean (N, 1, 1, 1) over a picture, axis by axis.

    Runtimes that add up long sums one by one, as those in browsers do, lose digits otherwise, and
    on nearly blank pictures those digits decide.
    """
    return values.mean(dim=3, keepdim=True).mean(dim=2, keepdim=True).mean(dim=1, keepdim=True)

"""ConvNeXt (Liu et al. 2022) and ConvNeXt V2 (Woo et al. 2023), with their published names.

Both are four stages of residual blocks between halvings of the side. Version 2 replaces the layer
scale inside a block by a global response normalisation. ``ConvNeXt`` has the names of torchvision,
which VINE's decoder is published under; ``ConvNeXtV2`` those of its authors' code, which the
preference model of WMForger is published under.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """How many blocks each stage has, and how many channels."""

    depths: Sequence[int]
    widths: Sequence[int]


TINY = Shape((3, 3, 9, 3), (96, 192, 384, 768))
BASE = Shape((3, 3, 27, 3), (128, 256, 512, 1024))


class ConvNeXt(nn.Module):
    """Pictures (N, 3, H, W) to logits (N, classes); H and W divide by 32 in the published shapes.

    ``features`` alone gives the last feature map, (N, widths[-1], H / 32, W / 32). A layer scale
    of 1e-6 is the published start, good for long training; short runs learn faster from 1.
    """

    def __init__(self, shape: Shape = BASE, classes: int = 1000, layer_scale: float = 1e-6) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for stage, (depth, width) in enumerate(zip(shape.depths, shape.widths, strict=True)):
            layers.append(_halve(shape.widths[stage - 1], width) if stage else _stem(width))
            layers.append(nn.Sequential(*(Block(width, layer_scale) for _ in range(depth))))
        self.features = nn.Sequential(*layers)
        last = shape.widths[-1]
        self.classifier = nn.Sequential(LayerNorm2d(last), nn.Flatten(1), nn.Linear(last, classes))
        _initialise(self)

    def forward(self, images: Tensor) -> Tensor:
        """The logits of the spatial mean of the last feature map."""
        pooled = self.features(images).mean(dim=(2, 3), keepdim=True)  # (N, C, 1, 1)
        return self.classifier(pooled)


class ConvNeXtV2(nn.Module):
    """Pictures (N, 3, H, W) to the last feature map (N, widths[-1], H / 32, W / 32).

    There is neither a final norm nor a head: the preference model brings its own.
    """

    def __init__(self, shape: Shape = TINY) -> None:
        super().__init__()
        self.downsample_layers = nn.ModuleList()
        self.stages = nn.ModuleList()
        for stage, (depth, width) in enumerate(zip(shape.depths, shape.widths, strict=True)):
            halved = _halve(shape.widths[stage - 1], width) if stage else _stem(width)
            self.downsample_layers.append(halved)
            self.stages.append(nn.Sequential(*(BlockV2(width) for _ in range(depth))))
        _initialise(self)

    def forward(self, images: Tensor) -> Tensor:
        """The last feature map."""
        x = images
        for halve, stage in zip(self.downsample_layers, self.stages, strict=True):
            x = stage(halve(x))
        return x


class Block(nn.Module):
    """x + scale * MLP(norm(depthwise 7x7 (x))), with one learned scale a channel."""

    def __init__(self, width: int, layer_scale: float) -> None:
        super().__init__()
        self.block = nn.Sequential(
            _depthwise(width),
            Permuted(0, 2, 3, 1),
            nn.LayerNorm(width, eps=1e-6),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
            Permuted(0, 3, 1, 2),
        )
        self.layer_scale = nn.Parameter(torch.full((width, 1, 1), layer_scale))

    def forward(self, x: Tensor) -> Tensor:
        """(N, width, H, W) -> the same."""
        return x + self.layer_scale * self.block(x)


class BlockV2(nn.Module):
    """x + MLP(norm(depthwise 7x7 (x))), with response normalisation inside the MLP."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dwconv = _depthwise(width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.pwconv1 = nn.Linear(width, 4 * width)
        self.grn = ResponseNorm(4 * width)
        self.pwconv2 = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(N, width, H, W) -> the same."""
        y = self.norm(self.dwconv(x).permute(0, 2, 3, 1))  # (N, H, W, width)
        y = self.pwconv2(self.grn(functional.gelu(self.pwconv1(y))))
        return x + y.permute(0, 3, 1, 2)


class ResponseNorm(nn.Module):
    """GRN: each channel is weighed by its energy over the picture against that of the others."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(1, 1, 1, width))
        self.beta = nn.Parameter(torch.zeros(1, 1, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        """(N, H, W, width) -> the same."""
        energy = torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True)  # (N, 1, 1, width)
        relative = energy / (energy.mean(dim=-1, keepdim=True) + 1e-6)
        return self.gamma * (x * relative) + self.beta + x


class LayerNorm2d(nn.LayerNorm):
    """Normalises the channels of each position of (N, C, H, W)."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> the same."""
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Permuted(nn.Module):
    """Another order of the axes, as a step of a sequence."""

    def __init__(self, *axes: int) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, x: Tensor) -> Tensor:
        """The same values."""
        return x.permute(self.axes)


def _stem(width: int) -> nn.Sequential:
    """Patches of 4 x 4 pixels: (N, 3, H, W) -> (N, width, H / 4, W / 4)."""
    return nn.Sequential(nn.Conv2d(3, width, kernel_size=4, stride=4), LayerNorm2d(width))


def _halve(before: int, after: int) -> nn.Sequential:
    """(N, before, H, W) -> (N, after, H / 2, W / 2)."""
    return nn.Sequential(LayerNorm2d(before), nn.Conv2d(before, after, kernel_size=2, stride=2))


def _depthwise(width: int) -> nn.Conv2d:
    return nn.Conv2d(width, width, kernel_size=7, padding=3, groups=width)


def _initialise(network: nn.Module) -> None:
    """Weights from a normal distribution cut at two deviations, biases of zero."""
    for module in network.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.trunc_normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

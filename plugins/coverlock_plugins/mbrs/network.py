"""MBRS (Jia, Fang, Zhang 2021), figure 2: a message processor beside an image branch.

The message is a small square picture, enlarged by its own branch, which meets the image only in
the last two convolutions. It may therefore become the same pattern on every picture, and does.
``broadcast_gap`` replaces the branch by HiDDeN's repetition and pooling, the paper's intervention.
With ``diffusion`` a linear layer first spreads the message over a grid of its own, which allows
lengths that are no squares (the authors' second network, 30 bits at 128 pixels).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from coverlock_plugins.networks.network import (
    Chain,
    ConvBNRelu,
    PooledReadout,
    WatermarkNetwork,
    repeated,
)


class SqueezeExcite(nn.Module):
    """A bottleneck whose channels are weighed by what the whole picture shows."""

    REDUCTION = 8

    def __init__(self, channels_in: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.downsample = None
        if channels_in != channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride=stride, bias=False),
                nn.BatchNorm2d(channels),
            )
        self.left = nn.Sequential(
            nn.Conv2d(channels_in, channels, 1, stride=stride, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
        squeezed = channels // self.REDUCTION
        self.se = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1, bias=False),
            nn.ReLU(),
            nn.Conv2d(squeezed, channels, 1, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(N, in, H, W) -> (N, channels, H / stride, W / stride)."""
        y = self.left(x)
        identity = x if self.downsample is None else self.downsample(x)
        return functional.relu(y * self.se(y) + identity)


class Doubling(Chain):
    """A transposed convolution that doubles the side, batch normalisation, ReLU."""

    def __init__(self, channels: int) -> None:
        convolution = nn.ConvTranspose2d(channels, channels, 2, stride=2)
        super().__init__(convolution, nn.BatchNorm2d(channels), nn.ReLU())


def same_width(channels: int, blocks: int) -> Chain:
    """``blocks`` squeeze-and-excitation blocks that keep width and size."""
    return Chain(*(SqueezeExcite(channels, channels) for _ in range(blocks)))


def halving(channels: int, halvings: int) -> Chain:
    """The decoder's trunk: each stage after the first halves the side and doubles the width."""
    blocks = [SqueezeExcite(channels, channels)]
    for _ in range(halvings):
        blocks += [
            SqueezeExcite(channels, channels),
            SqueezeExcite(channels, 2 * channels, stride=2),
        ]
        channels *= 2
    return Chain(*blocks)


class MbrsEncoder(nn.Module):
    """Cover (N, 3, H, W) in [-1, 1] and message (N, L) to the marked picture."""

    def __init__(
        self, bits: int, size: int, channels: int, blocks: int, diffusion: int, broadcast_gap: bool
    ) -> None:
        super().__init__()
        self.side = math.isqrt(diffusion or bits)
        doublings = int(math.log2(size // self.side))
        self.image_pre_layer = ConvBNRelu(3, channels)
        self.image_first_layer = same_width(channels, blocks)
        self.broadcast_gap, message_channels, mixed = broadcast_gap, channels, channels
        if broadcast_gap:
            message_channels, mixed = bits, max(channels, bits)
        else:
            grow = Chain(*(Doubling(channels) for _ in range(doublings)))
            settle = same_width(channels, max(blocks - doublings, 1))
            if diffusion:
                self.message_duplicate_layer = nn.Linear(bits, diffusion)
                self.message_pre_layer_0 = ConvBNRelu(1, channels)
                self.message_pre_layer_1, self.message_pre_layer_2 = grow, settle
            else:
                self.message_pre_layer = nn.Sequential(ConvBNRelu(1, channels), grow, settle)
            self.message_first_layer = same_width(channels, blocks)
        self.diffusion = diffusion
        self.after_concat_layer = ConvBNRelu(channels + message_channels, mixed)
        self.final_layer = nn.Conv2d(mixed + 3, 3, 1)

    def forward(self, cover: Tensor, message: Tensor) -> Tensor:
        """The output is the picture itself, with the cover as three of its inputs."""
        image = self.image_first_layer(self.image_pre_layer(cover))
        planes = repeated(message, cover) if self.broadcast_gap else self.processed(message)
        mixed = self.after_concat_layer(torch.cat([image, planes], dim=1))
        return self.final_layer(torch.cat([mixed, cover], dim=1))

    def processed(self, message: Tensor) -> Tensor:
        """The message processor: (N, L) -> (N, channels, H, W)."""
        if self.diffusion:
            square = self.message_duplicate_layer(message).view(-1, 1, self.side, self.side)
            grown = self.message_pre_layer_1(self.message_pre_layer_0(square))
            planes = self.message_pre_layer_2(grown)
        else:
            planes = self.message_pre_layer(message.view(-1, 1, self.side, self.side))
        return self.message_first_layer(planes)


class MbrsDecoder(nn.Module):
    """A picture (N, 3, H, W) in [-1, 1] to the message as floats about 0 and 1."""

    def __init__(
        self, bits: int, size: int, channels: int, blocks: int, diffusion: int, broadcast_gap: bool
    ) -> None:
        super().__init__()
        halvings = int(math.log2(size // math.isqrt(diffusion or bits)))
        kept = 1 if diffusion else max(blocks - halvings, 0)
        if broadcast_gap:
            channels, halvings, kept = max(channels, bits), 0, blocks
        self.first_layers = nn.Sequential(
            ConvBNRelu(3, channels),
            halving(channels, halvings),
            ConvBNRelu(channels * 2**halvings, channels),
        )
        self.keep_layers = same_width(channels, kept)
        self.final_layer = (
            PooledReadout(channels, bits) if broadcast_gap else ConvBNRelu(channels, 1)
        )
        spread = diffusion and not broadcast_gap
        self.message_layer = nn.Linear(diffusion, bits) if spread else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, L); a cell of the last map is a bit."""
        message: Tensor = self.final_layer(self.keep_layers(self.first_layers(images)))
        return self.message_layer(message.flatten(1))


class MbrsNetwork(WatermarkNetwork):
    """Encoder and decoder, under the names that the published checkpoints use."""

    def __init__(
        self,
        bits: int = 256,
        size: int = 256,
        channels: int = 64,
        blocks: int = 4,
        diffusion: int = 0,
        broadcast_gap: bool = False,
    ) -> None:
        side = math.isqrt(diffusion or bits)
        cells = size // side if side else 0
        if side**2 != (diffusion or bits) or cells * side != size or cells & (cells - 1):
            raise ValueError(
                f"MBRS lays {diffusion or bits} values out in a square that doubles up to {size} "
                "pixels: choose a square number whose root divides the size by a power of two"
            )
        shape = {"channels": channels, "blocks": blocks, "diffusion": diffusion}
        super().__init__(bits, size, **shape, broadcast_gap=broadcast_gap)
        self.encoder = MbrsEncoder(**self.settings)
        self.decoder = MbrsDecoder(**self.settings)

    def encode(self, images: Tensor, messages: Tensor) -> Tensor:
        """MBRS works in [-1, 1]."""
        return (self.encoder(2 * images - 1, messages) + 1) / 2

    def decode(self, images: Tensor) -> Tensor:
        """Its decoder regresses the bits, so the boundary between them is 0.5."""
        return self.decoder(2 * images - 1) - 0.5

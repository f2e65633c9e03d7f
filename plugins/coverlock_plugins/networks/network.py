"""What the trainer trains: an encoder and a decoder as one PyTorch module."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn


class NoiseLayer(Protocol):
    """A way to distort the pictures of a batch."""

    def __call__(self, marked: Tensor, covers: Tensor, rng: np.random.Generator) -> Tensor:
        """Return what is left of ``marked``, at the same size."""
        ...


class WatermarkNetwork(nn.Module, ABC):
    """Encoder and decoder of a watermark; its state dict is what a checkpoint holds.

    Pictures are (N, 3, size, size) in [0, 1], messages (N, bits) floats of 0 and 1. A network
    converts them to its own range and channel order.
    """

    bits: int
    size: int
    settings: dict[str, Any]
    """The constructor's arguments, kept beside the weights so that a file is enough to load it."""

    @abstractmethod
    def encode(self, images: Tensor, messages: Tensor) -> Tensor:
        """The marked pictures; values may leave [0, 1] until they are clipped."""

    @abstractmethod
    def decode(self, images: Tensor) -> Tensor:
        """Logits (N, bits), above zero where the bit seems to be 1."""

    def decode_in_training(self, images: Tensor, noise: NoiseLayer) -> tuple[Tensor, Tensor]:
        """Logits of pictures that went through ``noise``, and a loss of the network's own.

        Only in training is it known what a picture went through. A network that will have to guess
        can be taught here to guess it; any other just decodes.
        """
        return self.decode(images), images.new_zeros(())

    def relax(self, fidelity: float) -> None:
        """Told before each training step what share of its weight fidelity has.

        A network whose mark is bounded by construction may let it be stronger meanwhile.
        """


class Encoder(nn.Module):
    """The encoder alone, as a module: (images, payloads) to marked pictures in [0, 1]."""

    def __init__(self, network: WatermarkNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor, payloads: Tensor) -> Tensor:
        """Mark ``images`` (N, 3, size, size) with ``payloads`` (N, bits) of 0 and 1."""
        return self.network.encode(images, payloads.to(images.dtype)).clamp(0, 1)


class Decoder(nn.Module):
    """The decoder alone, as a module: pictures to logits."""

    def __init__(self, network: WatermarkNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """The logits (N, bits) of pictures (N, 3, size, size)."""
        return self.network.decode(images)


class ConvBNRelu(nn.Module):
    """3x3 convolution, batch normalisation, ReLU: the brick of HiDDeN, MBRS and their heirs."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels_in, channels_out, 3, padding=1),
            nn.BatchNorm2d(channels_out),
            nn.ReLU(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(N, in, H, W) -> (N, out, H, W)."""
        return self.layers(x)


class Discriminator(nn.Module):
    """Tells covers from marked pictures: ConvBNRelu blocks, global pooling, one logit."""

    def __init__(self, channels: int = 64, blocks: int = 3) -> None:
        super().__init__()
        widths = [3, *[channels] * blocks]
        pairs = itertools.pairwise(widths)
        self.before_linear = nn.Sequential(*(ConvBNRelu(a, b) for a, b in pairs))
        self.linear = nn.Linear(channels, 1)

    def forward(self, images: Tensor) -> Tensor:
        """(N, 3, H, W) in [0, 1] -> (N, 1), high for covers."""
        return self.linear(self.before_linear(2 * images - 1).mean(dim=(2, 3)))


def repeated(messages: Tensor, like: Tensor) -> Tensor:
    """Broadcast-GAP's encoder end, the message at every pixel: (N, L) -> (N, L, H, W)."""
    return messages[:, :, None, None].expand(-1, -1, *like.shape[2:]).to(like.dtype)


class LaidOut(nn.Module):
    """The opposite of broadcasting: a learned map gives each bit its places in a grid."""

    GRID = 16

    def __init__(self, bits: int, channels: int, size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(bits, channels * self.GRID**2)
        self.channels, self.size = channels, size

    def forward(self, messages: Tensor) -> Tensor:
        """(N, L) -> (N, channels, size, size), constant within each cell of the grid."""
        cells = self.linear(messages).view(-1, self.channels, self.GRID, self.GRID)
        return nn.functional.interpolate(cells, size=(self.size, self.size))


class PooledReadout(nn.Module):
    """Broadcast-GAP's decoder end: a map per bit, averaged over the picture, then mixed."""

    def __init__(self, channels: int, bits: int) -> None:
        super().__init__()
        self.maps = ConvBNRelu(channels, bits)
        self.linear = nn.Linear(bits, bits)

    def forward(self, x: Tensor) -> Tensor:
        """(N, channels, H, W) -> (N, bits)."""
        return self.linear(self.maps(x).mean(dim=(2, 3)))


def in_chunks(module: nn.Module, *batches: Tensor, rows: int = 8) -> Tensor:
    """What ``module`` makes of ``batches``, a few rows at a time to bound the memory it takes."""
    device, parts = device_of(module), [torch.split(batch, rows) for batch in batches]
    with torch.inference_mode():
        results = [module(*(p.to(device) for p in part)).cpu() for part in zip(*parts, strict=True)]
    return torch.cat(results)


def device_of(network: nn.Module) -> torch.device:
    """Where a network's weights are."""
    return next(network.parameters()).device

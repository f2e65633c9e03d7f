"""What the trainer trains: an encoder and a decoder as one PyTorch module."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

NoiseLayer = Callable[[Tensor, Tensor, np.random.Generator], Tensor]
"""(marked, covers, rng) to what is left of ``marked`` after a distortion, at the same size."""


class WatermarkNetwork(nn.Module, ABC):
    """Encoder and decoder of a watermark; its state dict is what a checkpoint holds.

    Pictures are (N, 3, size, size) in [0, 1], messages (N, bits) floats of 0 and 1. A network
    converts them to its own range and channel order.
    """

    def __init__(self, bits: int, size: int, **others: Any) -> None:
        super().__init__()
        self.bits, self.size = bits, size
        self.settings = {"bits": bits, "size": size, **others}
        """The constructor's arguments, which a weight file keeps to build the network again."""

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


class Chain(nn.Module):
    """Modules in a row, under the name ``layers`` that the published checkpoints give them."""

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*modules)

    def forward(self, x: Tensor) -> Tensor:
        """One module after the other."""
        return self.layers(x)


class ConvBNRelu(Chain):
    """3x3 convolution, batch normalisation, ReLU: the brick of HiDDeN, MBRS and their heirs."""

    def __init__(self, channels_in: int, channels: int) -> None:
        convolution = nn.Conv2d(channels_in, channels, 3, padding=1)
        super().__init__(convolution, nn.BatchNorm2d(channels), nn.ReLU())


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
    device = next(module.parameters()).device
    parts = [torch.split(batch, rows) for batch in batches]
    with torch.inference_mode():
        results = [module(*(p.to(device) for p in part)).cpu() for part in zip(*parts, strict=True)]
    return torch.cat(results)

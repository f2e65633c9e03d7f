"""HiDDeN (Zhu, Kaplan, Johnson, Fei-Fei 2018), figure 2, with the paper's two interventions.

The message is repeated at every pixel, so that convolutions alone can lay nothing out in space,
and the decoder averages over the picture, so that it can look nowhere in particular. What is left
is to write the message into the picture's own texture: Broadcast-GAP, the reason for HiDDeN's low
residual transferability. ``broadcast`` and ``gap`` remove either half (appendix E.2).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from coverlock_plugins.networks.network import ConvBNRelu, LaidOut, WatermarkNetwork, repeated


class HiddenEncoder(nn.Module):
    """Cover (N, 3, H, W) in [-1, 1] and message (N, L) to the marked picture."""

    def __init__(self, bits: int, size: int, channels: int, broadcast: bool) -> None:
        super().__init__()
        self.conv_layers = nn.Sequential(
            ConvBNRelu(3, channels), *(ConvBNRelu(channels, channels) for _ in range(3))
        )
        self.message_layer = None if broadcast else LaidOut(bits, bits, size)
        self.after_concat_layer = ConvBNRelu(bits + channels + 3, channels)
        self.final_layer = nn.Conv2d(channels, 3, 1)

    def forward(self, cover: Tensor, message: Tensor) -> Tensor:
        """The output is the picture itself; nothing adds the cover back."""
        features = self.conv_layers(cover)
        if self.message_layer is None:
            planes = repeated(message, cover)
        else:
            planes = self.message_layer(message)
        return self.final_layer(
            self.after_concat_layer(torch.cat([planes, features, cover], dim=1))
        )


class HiddenDecoder(nn.Module):
    """A picture (N, 3, H, W) in [-1, 1] to the message as floats about 0 and 1."""

    READ_GRID = 16

    def __init__(self, bits: int, channels: int, blocks: int, gap: bool) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            ConvBNRelu(3, channels),
            *(ConvBNRelu(channels, channels) for _ in range(blocks - 1)),
            ConvBNRelu(channels, bits),
            nn.AdaptiveAvgPool2d(1 if gap else self.READ_GRID),
        )
        self.linear = nn.Linear(bits if gap else bits * self.READ_GRID**2, bits)

    def forward(self, images: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, L)."""
        return self.linear(self.layers(images).flatten(1))


class HiddenNetwork(WatermarkNetwork):
    """Encoder and decoder, under the names that the published checkpoints use."""

    def __init__(
        self,
        bits: int = 30,
        size: int = 128,
        channels: int = 64,
        decoder_blocks: int = 7,
        broadcast: bool = True,
        gap: bool = True,
    ) -> None:
        shape = {"channels": channels, "decoder_blocks": decoder_blocks}
        super().__init__(bits, size, **shape, broadcast=broadcast, gap=gap)
        self.encoder = HiddenEncoder(bits, size, channels, broadcast)
        self.decoder = HiddenDecoder(bits, channels, decoder_blocks, gap)

    def encode(self, images: Tensor, messages: Tensor) -> Tensor:
        """HiDDeN works in [-1, 1]."""
        return (self.encoder(self._ordered(2 * images - 1), messages) + 1) / 2

    def decode(self, images: Tensor) -> Tensor:
        """Its decoder regresses the bits, so the boundary between them is 0.5."""
        return self.decoder(self._ordered(2 * images - 1)) - 0.5

    def _ordered(self, images: Tensor) -> Tensor:
        """Channels last while it is trained: convolutions are faster that way."""
        return images.contiguous(memory_format=torch.channels_last) if self.training else images

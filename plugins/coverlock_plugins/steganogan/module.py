"""SteganoGAN's dense networks in PyTorch, for export and analysis."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from coverlock_plugins.steganogan.network import LEAK, FloatArray
from coverlock_sdk.arrays import Bits


class Dense(nn.Module):
    """Four convolutions, each of which sees the outputs of all before it and ``extra`` planes."""

    def __init__(
        self, weights: Mapping[str, FloatArray], part: str, outputs: int, extra: int = 0
    ) -> None:
        super().__init__()
        self.conv1 = _block(3)
        self.conv2 = _block(32 + extra)
        self.conv3 = _block(64 + extra)
        self.conv4 = nn.Sequential(nn.Conv2d(96 + extra, outputs, 3, padding=1))
        own = {
            name.removeprefix(f"{part}."): torch.from_numpy(values)
            for name, values in weights.items()
            if name.startswith(f"{part}.")
        }
        # The number of batches seen in training is not kept, because nothing uses it.
        counters = [name for name in self.state_dict() if name.endswith("num_batches_tracked")]
        self.load_state_dict(own | dict.fromkeys(counters, torch.tensor(0)))

    def dense(self, images: Tensor, *planes: Tensor) -> Tensor:
        """Pictures (N, 3, H, W) in [-1, 1], and planes (N, extra, H, W) where there are any."""
        first = self.conv1(images)
        second = self.conv2(torch.cat([first, *planes], dim=1))
        third = self.conv3(torch.cat([first, second, *planes], dim=1))
        return self.conv4(torch.cat([first, second, third, *planes], dim=1))


class Decoder(Dense):
    """Pictures (N, 3, 256, 256) in [0, 1] to logits (N, bits)."""

    signs: Tensor

    def __init__(self, weights: Mapping[str, FloatArray], flips: Bits, bits: int) -> None:
        super().__init__(weights, "decoder", outputs=8)
        self.bits = bits
        self.register_buffer("signs", 1 - 2 * torch.tensor(flips).float(), persistent=False)
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        """The mean logit of all places that carry the same bit."""
        votes = self.signs * self.dense(2 * images - 1)
        return votes.reshape(images.shape[0], -1, self.bits).mean(dim=1)


class Encoder(Dense):
    """Pictures (N, 3, 256, 256) in [0, 1] and payloads (N, bits) of 0 and 1 to marked pictures."""

    flips: Tensor

    def __init__(self, weights: Mapping[str, FloatArray], flips: Bits, depth: int) -> None:
        super().__init__(weights, "encoder", outputs=3, extra=depth)
        self.depth = depth
        self.register_buffer("flips", torch.tensor(flips).float(), persistent=False)
        self.eval()

    def forward(self, images: Tensor, payloads: Tensor) -> Tensor:
        """The payload, repeated over all places and flipped, goes in as planes."""
        height, width = self.flips.shape
        repeats = self.depth * height * width // payloads.shape[1]
        bits = payloads.repeat(1, repeats).reshape(-1, self.depth, height, width)
        planes = bits + self.flips - 2 * bits * self.flips  # XOR
        cover = 2 * images - 1
        return ((cover + self.dense(cover, planes) + 1) / 2).clamp(0, 1)


def _block(channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding=1), nn.LeakyReLU(float(LEAK)), nn.BatchNorm2d(32)
    )

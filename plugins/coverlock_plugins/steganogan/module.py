"""SteganoGAN's dense decoder in PyTorch."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from coverlock_plugins.steganogan.network import LEAK, FloatArray
from coverlock_sdk.contract import Bits


class Decoder(nn.Module):
    """Pictures (N, 3, 256, 256) in [0, 1] to logits (N, bits)."""

    signs: torch.Tensor

    def __init__(self, weights: Mapping[str, FloatArray], flips: Bits, bits: int) -> None:
        super().__init__()
        self.bits = bits
        self.register_buffer("signs", 1 - 2 * torch.tensor(flips).float(), persistent=False)
        self.conv1 = self._block(3)
        self.conv2 = self._block(32)
        self.conv3 = self._block(64)
        self.conv4 = nn.Sequential(nn.Conv2d(96, 8, 3, padding=1))
        own = {
            name.removeprefix("decoder."): torch.from_numpy(values)
            for name, values in weights.items()
            if name.startswith("decoder.")
        }
        # The number of batches seen in training is not kept, because nothing uses it.
        counters = [name for name in self.state_dict() if name.endswith("num_batches_tracked")]
        self.load_state_dict(own | dict.fromkeys(counters, torch.tensor(0)))
        self.eval()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The mean logit of all places that carry the same bit."""
        first = self.conv1(2 * images - 1)
        second = self.conv2(first)
        third = self.conv3(torch.cat([first, second], dim=1))
        votes = self.conv4(torch.cat([first, second, third], dim=1))
        votes = self.signs * votes
        logits: torch.Tensor = votes.reshape(images.shape[0], -1, self.bits).mean(dim=1)
        return logits

    @staticmethod
    def _block(channels: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(channels, 32, 3, padding=1), nn.LeakyReLU(float(LEAK)), nn.BatchNorm2d(32)
        )

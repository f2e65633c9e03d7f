"""RivaGAN's decoder in PyTorch, for export and analysis."""

from __future__ import annotations

from pathlib import Path

import onnx
import torch
from onnx import numpy_helper
from torch import nn


class Decoder(nn.Module):
    """Pictures (N, 3, H, W) in [0, 1] to logits (N, 32).

    ``_attention`` says which bit a pixel is about, ``_conv`` what each bit would be there.
    """

    def __init__(self) -> None:
        super().__init__()
        self._attention = nn.Sequential(
            _convolution(3), nn.Tanh(), nn.BatchNorm2d(32),
            _convolution(32), nn.Tanh(), nn.BatchNorm2d(32),
        )  # fmt: skip
        self._conv = nn.Sequential(_convolution(3), nn.Tanh(), nn.BatchNorm2d(32), _convolution(32))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The mean over the picture of what each pixel says about its bit."""
        frames = 2 * images.flip(1) - 1  # BGR
        attention = torch.softmax(self._attention(frames), dim=1)
        logits: torch.Tensor = (self._conv(frames) * attention).mean(dim=(2, 3))
        return logits


def load_decoder(path: Path) -> Decoder:
    """The decoder with the weights of the graph in ``path``, which have the same names there."""
    decoder = Decoder()
    names = decoder.state_dict().keys()
    # The number of batches seen in training is not in the graph, because nothing uses it.
    counters = [name for name in names if name.endswith("num_batches_tracked")]
    weights = dict.fromkeys(counters, torch.tensor(0))
    for initializer in onnx.load(path).graph.initializer:
        if initializer.name in names:
            values = torch.tensor(numpy_helper.to_array(initializer))
            # A kernel has a time axis of length one, which a single picture does not need.
            weights[initializer.name] = values.squeeze(2) if values.ndim == 5 else values
    decoder.load_state_dict(weights)
    return decoder.eval()


def _convolution(channels: int) -> nn.Conv2d:
    return nn.Conv2d(channels, 32, kernel_size=11, padding=5)

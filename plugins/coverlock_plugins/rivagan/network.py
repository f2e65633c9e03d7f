"""RivaGAN (Zhang, Xu, Cuesta-Infante, Veeramachaneni 2019), figure 2, for pictures.

An attention map, computed from the picture alone, says which bit each pixel is about; encoder and
decoder share it. ``fixed_attention`` replaces it by a learned pattern that is the same for every
picture, the paper's intervention. Frames are BGR, as OpenCV has them; kernels that have a time axis
of length one in the published graphs have none here.
"""

from __future__ import annotations

import math
from pathlib import Path

import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn

from coverlock_plugins.networks.network import WatermarkNetwork

HIDDEN = 32
SHARPNESS = 4.0
"""Of untrained attention: a pixel that attends to all bits alike would tell of none."""


class FixedAttention(nn.Module):
    """The same scores for every picture, learned with the rest."""

    def __init__(self, bits: int, size: int) -> None:
        super().__init__()
        self.pattern = nn.Parameter(SHARPNESS * torch.randn(1, bits, size, size))

    def forward(self, frames: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, D, H, W), whatever is in the frames."""
        return self.pattern.to(frames.dtype).expand(frames.shape[0], -1, -1, -1)


class RivaganNetwork(WatermarkNetwork):
    """Encoder and decoder around one attention."""

    STRENGTH = 0.016

    def __init__(
        self, bits: int = 32, size: int = 256, kernel: int = 11, fixed_attention: bool = False
    ) -> None:
        super().__init__(bits, size, kernel=kernel, fixed_attention=fixed_attention)
        self.strength = self.STRENGTH
        if fixed_attention:
            self.attention: nn.Module = FixedAttention(bits, size)
        else:
            scores = nn.BatchNorm2d(bits)
            nn.init.constant_(scores.weight, SHARPNESS)
            self.attention = _layers(3, bits, kernel, nn.Tanh(), scores)
        self.encoder = _layers(4, 3, kernel, nn.Tanh())
        self.decoder = _layers(3, bits, kernel)

    def encode(self, images: Tensor, messages: Tensor) -> Tensor:
        """Each pixel is told the bit that it attends to, and moves by two grey levels at most.

        While it is trained that bound may be relaxed.
        """
        frames = _frames(images)
        attention = torch.softmax(self.attention(frames), dim=1)
        told = torch.einsum("nd,ndhw->nhw", (2 * messages - 1).to(attention.dtype), attention)
        mark = self.encoder(torch.cat([frames, told[:, None]], dim=1))
        return images + self.strength * mark.flip(1) / 2

    def relax(self, fidelity: float) -> None:
        """The error that a bounded mark makes goes with the square of its strength."""
        self.strength = self.STRENGTH / math.sqrt(fidelity)

    def decode(self, images: Tensor) -> Tensor:
        """The mean over the picture of what each pixel says about its bit."""
        frames = _frames(images)
        attention = torch.softmax(self.attention(frames), dim=1)
        return (self.decoder(frames) * attention).mean(dim=(2, 3))


def from_onnx(encoder: Path, decoder: Path) -> RivaganNetwork:
    """The network with the weights of the two published graphs."""
    network = RivaganNetwork()
    weights: dict[str, Tensor] = {}
    for file, part in ((encoder, "encoder"), (decoder, "decoder")):
        for held in onnx.load(file).graph.initializer:
            module, _, rest = held.name.partition(".")
            own = {"_attention": "attention", "_conv": part}.get(module)
            values = torch.tensor(numpy_helper.to_array(held))
            if own:  # without the time axis of kernels
                weights[f"{own}.{rest}"] = values.squeeze(2) if values.ndim == 5 else values
    # The number of batches seen in training is not in a graph, because nothing uses it.
    counters = [n for n in network.state_dict() if n.endswith("num_batches_tracked")]
    network.load_state_dict(weights | dict.fromkeys(counters, torch.tensor(0)))
    return network.eval()


def _frames(images: Tensor) -> Tensor:
    return 2 * images.flip(1) - 1


def _layers(channels_in: int, channels: int, kernel: int, *after: nn.Module) -> nn.Sequential:
    """Two convolutions with 32 channels between them."""
    return nn.Sequential(
        nn.Conv2d(channels_in, HIDDEN, kernel, padding=kernel // 2),
        nn.Tanh(),
        nn.BatchNorm2d(HIDDEN),
        nn.Conv2d(HIDDEN, channels, kernel, padding=kernel // 2),
        *after,
    )

"""RivaGAN (Zhang, Xu, Cuesta-Infante, Veeramachaneni 2019), figure 2, for pictures.

An attention map, computed from the picture alone, says which bit each pixel is about; encoder and
decoder share it. ``fixed_attention`` replaces it by a learned pattern that is the same for every
picture, the paper's intervention. Frames are BGR, as OpenCV has them; kernels that have a time axis
of length one in the published graphs have none here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn

from coverlock_plugins.networks.network import WatermarkNetwork
from coverlock_sdk.errors import CoverLockError

HIDDEN = 32
SHARPNESS = 4.0
"""Of untrained attention: a pixel that attends to all bits alike would tell of none."""
PUBLISHED = {"bits": 32, "kernel": 11, "fixed_attention": False}
"""What the published graphs are made for; they take pictures of any size."""


class Attention(nn.Sequential):
    """Frames (N, 3, H, W) to scores (N, D, H, W), one plane a bit."""

    def __init__(self, bits: int, kernel: int) -> None:
        scores = nn.BatchNorm2d(bits)
        nn.init.constant_(scores.weight, SHARPNESS)
        super().__init__(
            _convolution(3, HIDDEN, kernel),
            nn.Tanh(),
            nn.BatchNorm2d(HIDDEN),
            _convolution(HIDDEN, bits, kernel),
            nn.Tanh(),
            scores,
        )


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
        self.attention: nn.Module = (
            FixedAttention(bits, size) if fixed_attention else Attention(bits, kernel)
        )
        self.encoder = nn.Sequential(
            _convolution(4, HIDDEN, kernel),
            nn.Tanh(),
            nn.BatchNorm2d(HIDDEN),
            _convolution(HIDDEN, 3, kernel),
            nn.Tanh(),
        )
        self.decoder = nn.Sequential(
            _convolution(3, HIDDEN, kernel),
            nn.Tanh(),
            nn.BatchNorm2d(HIDDEN),
            _convolution(HIDDEN, bits, kernel),
        )

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
        for name, values in _initializers(onnx.load(file)).items():
            weights[_own_name(name, part)] = values
    # The number of batches seen in training is not in a graph, because nothing uses it.
    counters = [n for n in network.state_dict() if n.endswith("num_batches_tracked")]
    network.load_state_dict(weights | dict.fromkeys(counters, torch.tensor(0)))
    return network.eval()


def into_onnx(network: RivaganNetwork, graph: Path, part: str) -> bytes:
    """One of the published graphs (``part``: encoder or decoder) with the network's weights."""
    others = {name: network.settings[name] for name in PUBLISHED}
    if others != PUBLISHED:
        raise CoverLockError(
            f"the published graphs of RivaGAN are for {PUBLISHED}, not for {others}: "
            "use such a network as load_watermark('rivagan-trained', weights=...)"
        )
    model, state = onnx.load(graph), network.state_dict()
    for initializer in model.graph.initializer:
        if _is_weight(initializer.name):
            shape = tuple(initializer.dims)
            values = state[_own_name(initializer.name, part)].float().reshape(shape).numpy()
            initializer.CopyFrom(numpy_helper.from_array(values, initializer.name))
    return model.SerializeToString()


def _initializers(model: onnx.ModelProto) -> Mapping[str, Tensor]:
    """A graph's weights without the time axis of their kernels."""
    arrays = {i.name: torch.tensor(numpy_helper.to_array(i)) for i in model.graph.initializer}
    weights = {name: values for name, values in arrays.items() if _is_weight(name)}
    return {name: v.squeeze(2) if v.ndim == 5 else v for name, v in weights.items()}


def _is_weight(name: str) -> bool:
    return name.startswith(("_attention.", "_conv."))


def _own_name(name: str, part: str) -> str:
    return name.replace("_attention.", "attention.").replace("_conv.", f"{part}.")


def _frames(images: Tensor) -> Tensor:
    return 2 * images.flip(1) - 1


def _convolution(channels_in: int, channels: int, kernel: int) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels, kernel, padding=kernel // 2)

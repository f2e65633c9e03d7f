"""ResNet-50 (He et al. 2015), written once: a filter, and CIN's selector."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

DEPTHS = (3, 4, 6, 3)


class Bottleneck(nn.Module):
    """ResNet's bottleneck block (He et al. 2015), with the stride in its 3x3 convolution."""

    EXPANSION = 4

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        channels = width * self.EXPANSION
        self.conv1 = nn.Conv2d(channels_in, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels)
        self.downsample: nn.Module | None = None
        if stride != 1 or channels_in != channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride=stride, bias=False),
                nn.BatchNorm2d(channels),
            )

    def forward(self, x: Tensor) -> Tensor:
        """(N, in, H, W) -> (N, 4 width, H / stride, W / stride)."""
        y = functional.relu(self.bn1(self.conv1(x)))
        y = functional.relu(self.bn2(self.conv2(y)))
        identity = x if self.downsample is None else self.downsample(x)
        return functional.relu(self.bn3(self.conv3(y)) + identity)


class ResNet50(nn.Module):
    """The usual network under the usual names, at any width."""

    def __init__(self, classes: int, width: int = 64) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        channels = width
        for stage, depth in enumerate(DEPTHS):
            blocks = []
            for index in range(depth):
                stride = 2 if stage and not index else 1
                blocks.append(Bottleneck(channels, width << stage, stride))
                channels = (width << stage) * Bottleneck.EXPANSION
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(channels, classes)

    def forward(self, images: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, classes)."""
        x = functional.relu(self.bn1(self.conv1(images)))
        x = functional.max_pool2d(x, 3, stride=2, padding=1)
        for stage in range(len(DEPTHS)):
            x = self.get_submodule(f"layer{stage + 1}")(x)
        return self.fc(x.mean(dim=(2, 3)))

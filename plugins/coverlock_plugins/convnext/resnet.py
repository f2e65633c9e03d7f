"""ResNet-50 (He et al. 2015), written once: a filter, CIN's selector, and a hash's backbone."""

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


class ResNet50Features(nn.Module):
    """The usual network without its classifier, under the usual names; divides the side by 32."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.channels = width
        for stage, depth in enumerate(DEPTHS):
            blocks = []
            for index in range(depth):
                stride = 2 if stage and not index else 1
                blocks.append(Bottleneck(self.channels, width << stage, stride))
                self.channels = (width << stage) * Bottleneck.EXPANSION
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))

    def forward(self, images: Tensor) -> Tensor:
        """(N, 3, H, W) -> the last feature map (N, channels, H / 32, W / 32)."""
        x = functional.relu(self.bn1(self.conv1(images)))
        x = functional.max_pool2d(x, 3, stride=2, padding=1)
        for stage in range(len(DEPTHS)):
            x = self.get_submodule(f"layer{stage + 1}")(x)
        return x


class ResNet50(ResNet50Features):
    """The usual network."""

    def __init__(self, classes: int, width: int = 64) -> None:
        super().__init__(width)
        self.fc = nn.Linear(self.channels, classes)

    def forward(self, images: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, classes)."""
        y: Tensor = self.fc(super().forward(images).mean(dim=(2, 3)))
        return y

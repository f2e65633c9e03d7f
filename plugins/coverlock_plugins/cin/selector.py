"""CIN's selector: a ResNet-50 (He et al. 2015) that tells JPEG files by their 8x8 DCT."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from coverlock_plugins.networks.block_dct import block_dct, to_yuv

WIDTH, DEPTHS, EXPANSION = 64, (3, 4, 6, 3), 4


class Bottleneck(nn.Module):
    """ResNet's bottleneck block, with the stride in its 3x3 convolution."""

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        channels = width * EXPANSION
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
    """Two classes: class 1 means a JPEG file."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, WIDTH, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(WIDTH)
        channels = WIDTH
        for stage, depth in enumerate(DEPTHS):
            blocks = []
            for index in range(depth):
                stride = 2 if stage and not index else 1
                blocks.append(Bottleneck(channels, WIDTH << stage, stride))
                channels = (WIDTH << stage) * EXPANSION
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(channels, 2)

    def forward(self, images: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, 2)."""
        x = functional.relu(self.bn1(self.conv1(images)))
        x = functional.max_pool2d(x, 3, stride=2, padding=1)
        for stage in range(len(DEPTHS)):
            x = self.get_submodule(f"layer{stage + 1}")(x)
        return self.fc(x.mean(dim=(2, 3)))


class JpegSelector(nn.Module):
    """Whether each picture was a JPEG file, from its block DCT."""

    def __init__(self) -> None:
        super().__init__()
        self.resnet = ResNet50()

    def forward(self, images: Tensor) -> Tensor:
        """Pictures (N, 3, H, W) in [0, 1], sides multiples of eight, to booleans (N,)."""
        return self.scores(images).argmax(dim=1) == 1

    def scores(self, images: Tensor) -> Tensor:
        """Logits (N, 2) of the two classes: the DCT has each coefficient where its pixel was."""
        dct = block_dct(to_yuv(images.clamp(0, 1) * 255)).flatten(4, 5).flatten(2, 3)
        return self.resnet(functional.normalize(dct).clamp(-1, 1))

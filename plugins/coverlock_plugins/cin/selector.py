"""CIN's selector: a ResNet-50 that tells JPEG files by their 8x8 DCT."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from coverlock_plugins.convnext.resnet import ResNet50
from coverlock_plugins.networks.block_dct import block_dct, to_yuv


class JpegSelector(nn.Module):
    """Class 1 of a ResNet-50 on the block DCT of a picture means that it was a JPEG file."""

    def __init__(self) -> None:
        super().__init__()
        self.resnet = ResNet50(classes=2)

    def forward(self, images: Tensor) -> Tensor:
        """Pictures (N, 3, H, W) in [0, 1], sides multiples of eight, to booleans (N,)."""
        return self.scores(images).argmax(dim=1) == 1

    def scores(self, images: Tensor) -> Tensor:
        """Logits (N, 2) of the two classes."""
        return self.resnet(self.spectrum(images))

    def spectrum(self, images: Tensor) -> Tensor:
        """The DCT of every 8x8 block in YUV, each coefficient where its pixel was."""
        dct = block_dct(to_yuv(images.clamp(0, 1) * 255))
        return functional.normalize(dct.flatten(4, 5).flatten(2, 3)).clamp(-1, 1)

"""CIN (Ma, Guo, Hou, Yang, Li, Jia, Xie 2022), figure 2: a message hidden by an invertible network.

Cover and message, both as Haar bands, run through coupling layers; the message half of what comes
out is added to the cover. Decoding runs the couplings backwards, which is close to linear in the
added pattern, so the pattern says the same on every picture. A second decoder, after MBRS, reads
pictures that a selector takes for JPEG files, whose loss no inversion can undo.

``broadcast_gap`` is the paper's intervention: the message is repeated at every pixel and fused with
the cover before it becomes a picture, and the read-out is pooled over all pixels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from coverlock_plugins.cin.selector import JpegSelector
from coverlock_plugins.mbrs.network import Doubling, MbrsDecoder
from coverlock_plugins.networks.network import (
    Chain,
    ConvBNRelu,
    PooledReadout,
    WatermarkNetwork,
    repeated,
)
from coverlock_sdk.errors import CoverLockError

if TYPE_CHECKING:
    from coverlock_plugins.networks.network import NoiseLayer

BANDS = 12  # three colours in four Haar bands
GRID = 16
BRANCHES = (1, 2, 3)
BROADCAST_WIDTH = 16  # of the fusion with the cover, at least; more where there are more bits


class Haar(nn.Module):
    """The 2x2 Haar transform and its inverse, all colours of a band next to each other."""

    haar_weights: Tensor

    def __init__(self) -> None:
        super().__init__()
        signs = [[[1, 1], [1, 1]], [[1, -1], [1, -1]], [[1, 1], [-1, -1]], [[1, -1], [-1, 1]]]
        kernels = torch.tensor(signs, dtype=torch.float32)[:, None].repeat(3, 1, 1, 1)
        self.haar_weights = nn.Parameter(kernels, requires_grad=False)

    def forward(self, images: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, 12, H/2, W/2)."""
        bands = functional.conv2d(images, self.haar_weights, stride=2, groups=3) / 4
        return bands.reshape(-1, 3, 4, *bands.shape[2:]).transpose(1, 2).flatten(1, 2)

    def inverse(self, bands: Tensor) -> Tensor:
        """(N, 12, H/2, W/2) -> (N, 3, H, W)."""
        by_band = bands.reshape(-1, 4, 3, *bands.shape[2:])
        by_colour = by_band.transpose(1, 2).flatten(1, 2)
        return functional.conv_transpose2d(by_colour, self.haar_weights, stride=2, groups=3)


class UndecimatedHaar(Haar):
    """The same bands at every pixel, around the edges: a constant in a band of detail is nothing.

    In every second pixel it would be stripes, which are easily read on any picture.
    """

    def forward(self, images: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, 12, H, W)."""
        around = functional.pad(images, (0, 1, 0, 1), mode="circular")
        bands = functional.conv2d(around, self.haar_weights, groups=3) / 4
        return bands.reshape(-1, 3, 4, *bands.shape[2:]).transpose(1, 2).flatten(1, 2)

    def inverse(self, bands: Tensor) -> Tensor:
        """(N, 12, H, W) -> (N, 3, H, W)."""
        by_band = bands.reshape(-1, 4, 3, *bands.shape[2:])
        by_colour = by_band.transpose(1, 2).flatten(1, 2)
        around = functional.pad(by_colour, (1, 0, 1, 0), mode="circular")
        kernels = self.haar_weights.flip(2, 3).view(3, 4, 2, 2)
        return functional.conv2d(around, kernels, groups=3) / 4


class DenseBlock(nn.Module):
    """Five 3x3 convolutions, each of which sees the outputs of all before it."""

    def __init__(self, growth: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(BANDS, growth, 3, padding=1)
        self.conv2 = nn.Conv2d(BANDS + growth, growth, 3, padding=1)
        self.conv3 = nn.Conv2d(BANDS + 2 * growth, growth, 3, padding=1)
        self.conv4 = nn.Conv2d(BANDS + 3 * growth, growth, 3, padding=1)
        self.conv5 = nn.Conv2d(BANDS + 4 * growth, BANDS, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 12, H, W) -> the same."""
        seen = x
        for convolution in (self.conv1, self.conv2, self.conv3, self.conv4):
            seen = torch.cat([seen, functional.leaky_relu(convolution(seen), 0.2)], dim=1)
        return self.conv5(seen)


class Coupling(nn.Module):
    """An affine coupling: invertible whatever its three networks F, G and H compute."""

    def __init__(self, growth: int) -> None:
        super().__init__()
        self.F, self.G, self.H = DenseBlock(growth), DenseBlock(growth), DenseBlock(growth)

    def forward(self, image: Tensor, message: Tensor) -> tuple[Tensor, Tensor]:
        """Mix the two halves."""
        image = image + self.F(message)
        return image, message * self.scale(image) + self.G(image)

    def inverse(self, image: Tensor, message: Tensor) -> tuple[Tensor, Tensor]:
        """Undo the mixing."""
        message = (message - self.G(image)) / self.scale(image)
        return image - self.F(message), message

    def scale(self, image: Tensor) -> Tensor:
        """Positive factors between 1/e and e."""
        return torch.exp(2 * torch.sigmoid(self.H(image)) - 1)


class Invertible(nn.Module):
    """Couplings in a row, forwards and backwards."""

    def __init__(self, couplings: int, growth: int) -> None:
        super().__init__()
        self.operations = nn.ModuleList(Coupling(growth) for _ in range(couplings))

    def forward(self, image: Tensor, message: Tensor) -> tuple[Tensor, Tensor]:
        """From cover and message to what is mixed of them."""
        for coupling in self.operations:
            image, message = coupling(image, message)
        return image, message

    def inverse(self, image: Tensor, message: Tensor) -> tuple[Tensor, Tensor]:
        """And back."""
        for coupling in reversed(self.operations):
            assert isinstance(coupling, Coupling)
            image, message = coupling.inverse(image, message)
        return image, message


class Fusion(nn.Module):
    """The message as three pictures and back: linear layers, enlarged; linear layers, averaged."""

    def __init__(self, bits: int, size: int) -> None:
        super().__init__()
        for branch in BRANCHES:
            self.add_module(f"linear{branch}", nn.Linear(bits, GRID**2))
        doublings = (size // GRID).bit_length() - 1
        for branch in BRANCHES:
            blocks = (Doubling(1) for _ in range(doublings))
            self.add_module(f"UpConvt{branch}", Chain(*blocks))
        for branch in BRANCHES:
            self.add_module(f"linear_rev{branch}", nn.Linear(size * size, bits))

    def forward(self, message: Tensor) -> Tensor:
        """(N, L) -> (N, 3, size, size)."""
        planes = []
        for branch in BRANCHES:
            square = self.get_submodule(f"linear{branch}")(message).view(-1, 1, GRID, GRID)
            planes.append(self.get_submodule(f"UpConvt{branch}")(square))
        return torch.cat(planes, dim=1)

    def inverse(self, planes: Tensor) -> Tensor:
        """(N, 3, size, size) -> (N, L)."""
        votes = [
            self.get_submodule(f"linear_rev{branch}")(planes[:, branch - 1].flatten(1)).clamp(-1, 1)
            for branch in BRANCHES
        ]
        return torch.stack(votes).mean(dim=0)


class BroadcastFusion(nn.Module):
    """The intervention, at pixel resolution: the message meets the cover in at least L channels.

    Only then is it squeezed into three planes. Constant over the picture, they could not hold L
    bits; mixed with the cover they can.
    """

    READOUT_BLOCKS = 3

    def __init__(self, bits: int) -> None:
        super().__init__()
        width = max(bits, BROADCAST_WIDTH)
        self.features = ConvBNRelu(3, width)
        self.mixing = ConvBNRelu(bits + width + 3, width)
        self.planes = nn.Conv2d(width, 3, 1)
        self.reading = nn.Sequential(
            ConvBNRelu(3, width),
            *(ConvBNRelu(width, width) for _ in range(self.READOUT_BLOCKS - 1)),
        )
        self.readout = PooledReadout(width, bits)

    def forward(self, message: Tensor, cover: Tensor) -> Tensor:
        """(N, L) and (N, 3, H, W) -> (N, 3, H, W)."""
        fused = torch.cat([repeated(message, cover), self.features(cover), cover], dim=1)
        return self.planes(self.mixing(fused))

    def inverse(self, planes: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, L)."""
        return self.readout(self.reading(planes))


class CinNetwork(WatermarkNetwork):
    """Everything under the names that the published checkpoint uses."""

    def __init__(
        self,
        bits: int = 30,
        size: int = 128,
        couplings: int = 16,
        growth: int = 32,
        jpeg_channels: int = 64,
        broadcast_gap: bool = False,
    ) -> None:
        if size % GRID or (size // GRID) & (size // GRID - 1):
            raise ValueError(f"CIN's size is {GRID} times a power of two, not {size}")
        shape = {"couplings": couplings, "growth": growth, "jpeg_channels": jpeg_channels}
        super().__init__(bits, size, **shape, broadcast_gap=broadcast_gap)
        self.invertible_model = Invertible(couplings, growth)
        self.fusion_model = BroadcastFusion(bits) if broadcast_gap else Fusion(bits, size)
        haar = UndecimatedHaar() if broadcast_gap else Haar()
        self.invDown = nn.ModuleDict({"operations": nn.ModuleList([haar])})
        self.has_jpeg_path = jpeg_channels > 0
        if self.has_jpeg_path:
            self.decoder2 = MbrsDecoder(bits, size, jpeg_channels, 4, GRID**2, False)
            self.nsm_model = JpegSelector()

    @property
    def haar(self) -> Haar:
        """The transform that both directions share."""
        haar = self.get_submodule("invDown.operations.0")
        assert isinstance(haar, Haar)
        return haar

    def encode(self, images: Tensor, messages: Tensor) -> Tensor:
        """The cover plus the message half of what the couplings make of both."""
        cover = self.haar(2 * images - 1)
        fused = (messages, 2 * images - 1) if self.settings["broadcast_gap"] else (messages,)
        _, mark = self.invertible_model(cover, self.haar(self.fusion_model(*fused)))
        return (self.haar.inverse(cover + mark) + 1) / 2

    def decode(self, images: Tensor) -> Tensor:
        """By inversion, or by the second decoder where the selector sees a JPEG file."""
        if not self.has_jpeg_path:
            return self.decode_by_inversion(images)
        compressed = self.nsm_model(images)[:, None]
        return torch.where(compressed, self.decode_jpeg(images), self.decode_by_inversion(images))

    def decode_in_training(self, images: Tensor, noise: NoiseLayer) -> tuple[Tensor, Tensor]:
        """Each decoder learns from the pictures it is for, and the selector which ones they are."""
        if not self.has_jpeg_path:
            return super().decode_in_training(images, noise)
        from coverlock_training.watermarks.noise import JPEG, Mixed

        if isinstance(noise, Mixed):
            raise CoverLockError(
                "CIN with its decoder for JPEG files learns from one noise a batch: train it with "
                "--noise recipe or everyday, or without that decoder (--set jpeg_channels=0)"
            )
        compressed = isinstance(noise, JPEG)
        logits = self.decode_jpeg(images) if compressed else self.decode_by_inversion(images)
        scores = self.nsm_model.scores(images.detach())  # the mark is not to please the selector
        truth = torch.full((len(images),), int(compressed), device=images.device)
        return logits, functional.cross_entropy(scores, truth)

    def decode_by_inversion(self, images: Tensor) -> Tensor:
        """Run the couplings backwards on the picture, twice over, and read the message half."""
        bands = self.haar(2 * images - 1)
        _, mark = self.invertible_model.inverse(bands, bands)
        message: Tensor = self.fusion_model.inverse(self.haar.inverse(mark))
        return message - 0.5

    def decode_jpeg(self, images: Tensor) -> Tensor:
        """The decoder that was trained on JPEG files."""
        message: Tensor = self.decoder2(2 * images - 1)
        return message.clamp(-1, 1) - 0.5

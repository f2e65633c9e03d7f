"""What a marked picture goes through during training, as tensor operations with gradients.

A layer takes marked pictures (N, 3, H, W) in [0, 1], the covers they were made from, and the
generator that every draw comes from. The distortions that a picture is *evaluated* under live in
``coverlock_sdk.images.distortions``; these are their stand-ins that a network can learn through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import kornia
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from coverlock_plugins.networks.block_dct import block_dct, from_block_dct, from_yuv, to_yuv
from coverlock_plugins.networks.network import NoiseLayer
from coverlock_sdk.images import distortions

Range = tuple[float, float]


@dataclass(frozen=True)
class Identity:
    """Nothing happens."""

    def __call__(self, marked: Tensor, covers: Tensor, rng: np.random.Generator) -> Tensor:
        return marked


@dataclass(frozen=True)
class Gaussian:
    """Noise of a standard deviation drawn from ``sigma``, the same for a seed on every device."""

    sigma: Range

    def __call__(self, marked: Tensor, covers: Tensor, rng: np.random.Generator) -> Tensor:
        noise = rng.standard_normal(marked.shape, dtype=np.float32) * rng.uniform(*self.sigma)
        return marked + torch.from_numpy(noise.astype(np.float32)).to(marked)


@dataclass(frozen=True)
class Blur:
    """A Gaussian blur of a standard deviation drawn from ``sigma``, in pixels."""

    sigma: Range

    def __call__(self, marked: Tensor, covers: Tensor, rng: np.random.Generator) -> Tensor:
        sigma = rng.uniform(*self.sigma)
        return _blurred(marked, sigma, 2 * max(1, int(np.ceil(3 * sigma))) + 1)


@dataclass(frozen=True)
class KernelBlur:
    """A Gaussian blur cut off at a kernel of ``width`` pixels, as CIN has it."""

    sigma: Range
    width: int

    def __call__(self, marked: Tensor, covers: Tensor, rng: np.random.Generator) -> Tensor:
        return _blurred(marked, rng.uniform(*self.sigma), self.width)


@dataclass(frozen=True)
class Brightness:
    """Every value times a factor, clipped as in a saved picture."""

    factor: Range

    def __call__(self, marked: Tensor, covers: Tensor, rng: np.random.Generator) -> Tensor:
        return (marked * rng.uniform(*self.factor)).clamp(0, 1)


@dataclass(frozen=True)
class Contrast:
    """Distance from the picture's mean grey times a factor, clipped as in a saved picture."""

    factor: Range

    def __call__(self, marked: Tensor, covers: Tensor, rng: np.random.Generator) -> Tensor:
        grey = kornia.color.rgb_to_grayscale(marked).mean(dim=(1, 2, 3), keepdim=True)
        return (grey + (marked - grey) * rng.uniform(*self.factor)).clamp(0, 1)


@dataclass(frozen=True)
class Saturation:
    """Distance from grey times a factor, clipped as in a saved picture."""

    factor: Range

    def __call__(self, marked: Tensor, covers: Tensor, rng: np.random.Generator) -> Tensor:
        grey = kornia.color.rgb_to_grayscale(marked)
        return (grey + (marked - grey) * rng.uniform(*self.factor)).clamp(0, 1)


@dataclass(frozen=True)
class Hue:
    """All hues turned by a share of the colour circle."""

    turn: Range

    def __call__(self, marked: Tensor, covers: Tensor, rng: np.random.Generator) -> Tensor:
        return kornia.enhance.adjust_hue(marked.clamp(0, 1), 2 * np.pi * rng.uniform(*self.turn))


@dataclass(frozen=True)
class RealJpeg:
    """A real JPEG file; the gradient passes as if nothing had happened."""

    quality: Range

    def __call__(self, marked: Tensor, covers: Tensor, rng: np.random.Generator) -> Tensor:
        codec = distortions.Jpeg(int(rng.uniform(*self.quality)))
        plain = marked.detach().float().clamp(0, 1).mul(255).round().byte().cpu()
        files = np.stack([codec(p, rng) for p in plain.permute(0, 2, 3, 1).numpy()])
        seen = torch.from_numpy(files).permute(0, 3, 1, 2).to(marked) / 255
        return marked + (seen - marked).detach()


@dataclass(frozen=True)
class JpegMask:
    """JPEG's loss of detail without its rounding: low frequencies of each 8x8 block survive.

    MBRS keeps squares of 5 (luma) and 3 (chroma), HiDDeN about as many along the zigzag.
    """

    luma: int = 5
    chroma: int = 3

    def __call__(self, marked: Tensor, covers: Tensor, rng: np.random.Generator) -> Tensor:
        kept = torch.zeros(3, 1, 8, 1, 8, device=marked.device)
        for channel, side in enumerate((self.luma, self.chroma, self.chroma)):
            kept[channel, :, :side, :, :side] = 1
        return from_yuv(from_block_dct(block_dct(to_yuv(marked)) * kept))


@dataclass(frozen=True)
class Crop:
    """A part of the picture, enlarged to its size again as verification does it."""

    area: Range
    centred: float = 0.5
    """Share of crops about the centre; the others lie anywhere."""

    def __call__(self, marked: Tensor, covers: Tensor, rng: np.random.Generator) -> Tensor:
        top, left, height, width = _window(marked, rng.uniform(*self.area), self.centred, rng)
        part = marked[:, :, top : top + height, left : left + width]
        return _resized(part, marked.shape[2:])


@dataclass(frozen=True)
class Cropout:
    """Only a window, anywhere, stays marked; around it is the cover."""

    area: Range

    def __call__(self, marked: Tensor, covers: Tensor, rng: np.random.Generator) -> Tensor:
        top, left, height, width = _window(marked, rng.uniform(*self.area), 0.0, rng)
        mask = torch.zeros_like(marked[:1, :1])
        mask[:, :, top : top + height, left : left + width] = 1
        return marked * mask + covers * (1 - mask)


@dataclass(frozen=True)
class Dropout:
    """A share of the pixels, with all their colours, is that of the cover."""

    share: Range

    def __call__(self, marked: Tensor, covers: Tensor, rng: np.random.Generator) -> Tensor:
        lost = rng.random(marked[:, :1].shape) < rng.uniform(*self.share)
        return torch.where(torch.from_numpy(lost).to(marked.device), covers, marked)


@dataclass(frozen=True)
class SaltPepper:
    """A share of the pixels becomes black or white, half of them each."""

    share: Range

    def __call__(self, marked: Tensor, covers: Tensor, rng: np.random.Generator) -> Tensor:
        draw = torch.from_numpy(rng.random(marked[:, :1].shape)).to(marked.device)
        share = rng.uniform(*self.share)
        return torch.where(draw < share, (draw < share / 2).to(marked.dtype), marked)


@dataclass(frozen=True)
class Resize:
    """Shrunk and enlarged again: bilinear, or as CIN has it by nearest neighbours."""

    scale: Range
    nearest: bool = False

    def __call__(self, marked: Tensor, covers: Tensor, rng: np.random.Generator) -> Tensor:
        scale = rng.uniform(*self.scale)
        height, width = (max(8, round(side * scale)) for side in marked.shape[2:])
        shrunk = _resized(marked, (height, width), self.nearest)
        return _resized(shrunk, marked.shape[2:], self.nearest)


JPEG = (RealJpeg, JpegMask)
"""The layers that stand for a JPEG file."""

EVERYDAY: tuple[NoiseLayer, ...] = (
    Identity(),
    Gaussian((0.0, 0.06)),
    Brightness((0.7, 1.3)),
    Blur((0.3, 1.2)),
    RealJpeg((50, 90)),
    JpegMask(),
    Contrast((0.7, 1.3)),
    Crop((0.7, 1.0)),
    Saturation((0.0, 0.0)),
)
"""What pictures commonly meet: the kinds of the paper's six distortions, in ranges about them, and
the loss of all colour, without which a mark in colours alone could not be put on grey pictures."""


@dataclass(frozen=True)
class Mixed:
    """Every picture of a batch meets a layer of its own, each of two twins too.

    The statistics of a batch are then close to the running ones, by which batch normalisation goes
    in use. Those of a batch that met one layer are not.
    """

    layers: tuple[NoiseLayer, ...]

    def __call__(self, marked: Tensor, covers: Tensor, rng: np.random.Generator) -> Tensor:
        pictures = zip(torch.split(marked, 1), torch.split(covers, 1), strict=True)
        return torch.cat([draw(self.layers, rng)(*picture, rng) for picture in pictures])


def draw(layers: Sequence[NoiseLayer], rng: np.random.Generator) -> NoiseLayer:
    """One of the layers; without any, nothing happens."""
    return layers[int(rng.integers(len(layers)))] if layers else Identity()


def _window(
    images: Tensor, area: float, centred: float, rng: np.random.Generator
) -> tuple[int, int, int, int]:
    """Top, left, height and width of a window of this share of the area."""
    height, width = (max(8, round(side * area**0.5)) for side in images.shape[2:])
    spare = (images.shape[2] - height, images.shape[3] - width)
    if rng.random() < centred:
        return spare[0] // 2, spare[1] // 2, height, width
    return int(rng.integers(spare[0] + 1)), int(rng.integers(spare[1] + 1)), height, width


def _blurred(images: Tensor, sigma: float, width: int) -> Tensor:
    return kornia.filters.gaussian_blur2d(images, (width, width), (sigma, sigma))


def _resized(part: Tensor, shape: Sequence[int], nearest: bool = False) -> Tensor:
    if nearest:
        return functional.interpolate(part, tuple(shape), mode="nearest")
    return functional.interpolate(part, tuple(shape), mode="bilinear", antialias=True)

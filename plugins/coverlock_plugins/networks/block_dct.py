"""The 8x8 block DCT of JPEG on tensors, as CIN's selector sees it and as training masks it."""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

_YUV = ((0.299, 0.587, 0.114), (-0.1687, -0.3313, 0.5), (0.5, -0.4187, -0.0813))


def to_yuv(images: Tensor) -> Tensor:
    """RGB (N, 3, H, W) to luma and two chroma planes."""
    return torch.einsum("ij,njhw->nihw", torch.tensor(_YUV).to(images), images)


def from_yuv(planes: Tensor) -> Tensor:
    """Luma and chroma back to RGB."""
    back = torch.linalg.inv(torch.tensor(_YUV)).to(planes)
    return torch.einsum("ij,njhw->nihw", back, planes)


def block_dct(planes: Tensor) -> Tensor:
    """(N, C, H, W), sides multiples of eight -> coefficients (N, C, H/8, 8, W/8, 8)."""
    count, channels, height, width = planes.shape
    blocks = planes.reshape(count, channels, height // 8, 8, width // 8, 8)
    cosines = _cosines().to(planes)
    return torch.einsum("ux,ncrxsy,vy->ncrusv", cosines, blocks, cosines)


def from_block_dct(coefficients: Tensor) -> Tensor:
    """The inverse of ``block_dct``."""
    cosines = _cosines().to(coefficients)
    blocks = torch.einsum("ux,ncrusv,vy->ncrxsy", cosines, coefficients, cosines)
    return blocks.flatten(4, 5).flatten(2, 3)


@functools.cache
def _cosines() -> Tensor:
    places = torch.arange(8) + 0.5
    cosines = torch.cos(torch.arange(8)[:, None] * places * math.pi / 8) / 2
    cosines[0] /= math.sqrt(2)
    return cosines

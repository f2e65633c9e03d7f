"""What pHash and PDQ compute, near enough to attack them by its gradients."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from coverlock_sdk.images.resampling import resample_matrix

SMALL = 64
KEPT = 16
LUMINANCE = (0.299, 0.587, 0.114)


class LowCosines(nn.Module):
    """Light at 64 x 64, its low frequencies, and how far each lies above their median.

    Both hashes shrink a picture by a filter of their own, so bits near the median may differ.
    High frequencies are amplified, so that none is lost beside the low ones.
    """

    basis: Tensor
    weights: Tensor
    gain: Tensor

    def __init__(self, first: int, last_bit_first: bool = False) -> None:
        super().__init__()
        self._last_bit_first = last_bit_first
        orders = np.arange(first, first + KEPT)
        places = np.pi * (np.arange(SMALL) + 0.5) / SMALL
        basis = np.cos(orders[:, None] * places).astype(np.float32)
        self.register_buffer("basis", torch.from_numpy(basis))
        self.register_buffer("weights", torch.tensor(LUMINANCE))
        self.register_buffer("gain", torch.from_numpy(1.0 + np.add.outer(orders, orders)).float())

    def forward(self, images: Tensor) -> Tensor:
        """(N, 3, H, W) in [0, 1] -> (N, 256)."""
        light = torch.einsum("nchw,c->nhw", images, self.weights)
        shrink = torch.from_numpy(np.array(resample_matrix(images.shape[-1], SMALL)))
        small = shrink @ light @ shrink.T
        frequencies = self.basis @ small @ self.basis.T
        median = frequencies.flatten(1).median(dim=1).values
        bits = ((frequencies - median[:, None, None]) * self.gain).flatten(1)
        return bits.flip(1) if self._last_bit_first else bits

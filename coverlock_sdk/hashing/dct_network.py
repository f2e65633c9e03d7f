"""The ``dct`` hash as a PyTorch module, for export."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from coverlock_sdk.hashing import dct_features as dct


class DctNetwork(nn.Module):
    """Pictures (N, 3, 64, 64) in [0, 1] to hash logits (N, 256), as ``dct_features`` has it."""

    colours: Tensor
    basis: Tensor
    luma: Tensor
    chroma: Tensor
    mean: Tensor
    projection: Tensor

    def __init__(self, mean: npt.NDArray[np.float32], projection: npt.NDArray[np.float32]) -> None:
        super().__init__()
        constants = {
            "colours": dct.RGB_TO_YCC,
            "basis": dct.dct_basis(dct.SIDE),
            "luma": np.flatnonzero(dct.low_frequencies(dct.LUMA_BAND)),
            "chroma": np.flatnonzero(dct.low_frequencies(dct.CHROMA_BAND)),
            "mean": mean,
            "projection": projection,
        }
        for name, value in constants.items():
            self.register_buffer(name, torch.tensor(value))

    def forward(self, images: Tensor) -> Tensor:
        """Whitened low frequencies of luminance and chrominance, projected."""
        channels = (self.colours @ images.flatten(2)).reshape(-1, 3, dct.SIDE, dct.SIDE)
        spectrum = (self.basis @ channels @ self.basis.T).flatten(2)  # (N, 3, 64 * 64)
        luma = spectrum[:, 0, self.luma]
        chroma = spectrum[:, 1:, self.chroma].flatten(1)
        features = torch.cat(
            [_normalised(luma, dct.LEAST_CONTRAST), _normalised(chroma, dct.LEAST_COLOUR)], dim=1
        )
        return (features - self.mean) @ self.projection


def _normalised(values: Tensor, least: float) -> Tensor:
    return values / values.norm(dim=1, keepdim=True).clamp(min=least)

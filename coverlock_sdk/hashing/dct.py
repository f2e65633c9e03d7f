"""`dct`: the hand-crafted hash. Low-frequency DCT features, whitened, randomly projected.

It needs nothing but NumPy and is the baseline that every trained hash has to beat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.contract import Differentiable, Gradient, ImageHash
from coverlock_sdk.hashing.dct_features import SIDE, dct_features, features_and_gradient
from coverlock_sdk.hashing.shipped import shipped_card, shipped_weights
from coverlock_sdk.locking.calibration import Calibration

if TYPE_CHECKING:
    import torch


class DctHash(ImageHash):
    """Signs of 256 fixed random directions through whitened low-frequency DCT coefficients."""

    name = "dct"
    input_size = (SIDE, SIDE)

    def __init__(self) -> None:
        weights = shipped_weights("dct")
        self._mean = weights["mean"]
        self._matrix = weights["whitening"] @ weights["projection"]
        self.calibration = Calibration(**shipped_card("dct")["calibration"])

    def logits(self, images: Images) -> Logits:
        """The 256 logits of each of ``images`` (N, 3, 64, 64)."""
        return (dct_features(images) - self._mean) @ self._matrix

    def differentiable(self) -> Differentiable:
        """The same hash with gradients."""

        def differentiated(images: Images) -> tuple[Logits, Gradient]:
            features, pull = features_and_gradient(images)
            return (features - self._mean) @ self._matrix, lambda g: pull(g @ self._matrix.T)

        return differentiated

    def module(self) -> torch.nn.Module:
        """The same hash in PyTorch."""
        from coverlock_sdk.hashing.dct_network import DctNetwork

        return DctNetwork(self._mean, self._matrix).eval()

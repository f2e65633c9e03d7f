"""`dct`: the hand-crafted hash. Low-frequency DCT features, whitened, randomly projected.

It needs nothing but NumPy and is the baseline that every trained hash has to beat.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.hashing.dct_features import SIDE, dct_features
from coverlock_sdk.locking.calibration import Calibration

if TYPE_CHECKING:
    import torch


class DctHash(ImageHash):
    """Signs of 256 fixed random directions through whitened low-frequency DCT coefficients."""

    name = "dct"
    input_size = (SIDE, SIDE)

    def __init__(self) -> None:
        weights = _weights()
        self._mean = weights["mean"]
        self._matrix = weights["whitening"] @ weights["projection"]
        self.calibration = _calibration()

    def logits(self, images: Images) -> Logits:
        """The 256 logits of each of ``images`` (N, 3, 64, 64)."""
        return (dct_features(images) - self._mean) @ self._matrix

    def module(self) -> torch.nn.Module:
        """The same hash in PyTorch."""
        from coverlock_sdk.hashing.dct_network import DctNetwork

        return DctNetwork(self._mean, self._matrix).eval()


@lru_cache(maxsize=1)
def _weights() -> dict[str, npt.NDArray[np.float32]]:
    from safetensors.numpy import load

    return load(_resource("dct.safetensors").read_bytes())


@lru_cache(maxsize=1)
def _calibration() -> Calibration:
    return Calibration(**json.loads(_resource("dct.json").read_text())["calibration"])


def _resource(name: str) -> resources.abc.Traversable:
    return resources.files("coverlock_sdk.hashing") / "weights" / name

"""``keen``: a hash for every kind of picture, not only for photos.

It is ``nano`` with larger windows and a fourth channel, in which faint detail counts as much as
strong; it was trained on photos and on drawn pictures of all kinds, and against forgers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.hashing.local_contrast import FLOOR, blur_matrix
from coverlock_sdk.hashing.nano import TOGETHER, Array, Model, normalise
from coverlock_sdk.hashing.shipped import shipped_card, shipped_weights
from coverlock_sdk.locking.calibration import Calibration

if TYPE_CHECKING:
    from coverlock_sdk.hashing.network import HashNetwork


class KeenHash(ImageHash):
    """A residual CNN that also tells pages, cards, screens and charts apart; see docs/hashes.md."""

    name = "keen"

    def __init__(self) -> None:
        card = shipped_card(self.name)
        side = int(card["network"]["size"])
        self.input_size = (side, side)
        self.calibration = Calibration(**card["calibration"])

    def logits(self, images: Images) -> Logits:
        """The 256 logits of each of ``images`` (N, 3, *input_size)."""
        model = _model()
        starts = range(0, len(images), TOGETHER)
        return np.concatenate([model(images[start : start + TOGETHER]) for start in starts])

    def module(self) -> HashNetwork:
        """The same hash in PyTorch."""
        import torch

        from coverlock_sdk.hashing.keen_network import KeenBackbone
        from coverlock_sdk.hashing.network import HashNetwork

        module = HashNetwork(KeenBackbone(**shipped_card(self.name)["network"]))
        weights = shipped_weights(self.name).items()
        module.load_state_dict(
            {name: torch.from_numpy(value) for name, value in weights}, strict=False
        )
        return module.eval()


@dataclass(frozen=True)
class KeenModel(Model):
    """The network of ``coverlock_sdk.hashing.keen_network``, for inference."""

    def _see(self, views: Array) -> Array:
        """Colour, and light with local contrast evened out: (N, 3, s, s) -> (N, 4, s, s)."""
        blur = blur_matrix(views.shape[-1])
        contrast = views.var(axis=(1, 2, 3), keepdims=True)
        light = views.mean(axis=1, keepdims=True) - views.mean(axis=(1, 2, 3), keepdims=True)
        fine = light - blur @ light @ blur.T
        energy = blur @ np.square(fine) @ blur.T
        evened = fine / np.sqrt(energy + np.float32(FLOOR**2) * contrast + np.float32(1e-5))
        return np.concatenate([normalise(views), evened / np.sqrt(1 + np.square(evened))], axis=1)


@lru_cache(maxsize=1)
def _model() -> Model:
    return KeenModel.build(shipped_card("keen")["network"], shipped_weights("keen"))

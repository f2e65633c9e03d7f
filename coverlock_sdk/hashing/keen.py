"""``keen``: a hash for every kind of picture, not only for photos.

It is ``nano`` with larger windows and a fourth channel, in which faint detail counts as much as
strong; it was trained on photos and on drawn pictures of all kinds, and against forgers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from coverlock_sdk.contract import Differentiable
from coverlock_sdk.hashing.gradients import differentiated, normalised_and_evened
from coverlock_sdk.hashing.local_contrast import FLOOR, blur_matrix
from coverlock_sdk.hashing.windowed import Array, Model, WindowedHash, normalise

if TYPE_CHECKING:
    from coverlock_sdk.hashing.network import HashNetwork


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


class KeenHash(WindowedHash):
    """A residual CNN that also tells pages, cards, screens and charts apart; see docs/hashes.md."""

    name = "keen"
    model = KeenModel

    def differentiable(self) -> Differentiable:
        """The same hash with gradients, in NumPy."""
        return partial(differentiated, self.built(), normalised_and_evened)

    def network(self, **settings: Any) -> HashNetwork:
        """The untrained network in PyTorch."""
        from coverlock_sdk.hashing.keen_network import KeenBackbone
        from coverlock_sdk.hashing.network import HashNetwork

        return HashNetwork(KeenBackbone(**settings))

"""Code-conditioned regression of residuals: no network at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coverlock_bench.knowing.pictures import Album
from coverlock_bench.photos import Picture8, to_8_bit, to_float
from coverlock_sdk.arrays import Logits


@dataclass(frozen=True)
class ResidualRegression:
    """Has released pictures with their originals, and the public hash; neither encoder nor decoder.

    Each pixel of a residual is a mixture of hash bits. The residual of a target follows from its
    own bits, and is given the strength that released ones have.
    """

    penalty: float = 30.0

    def forge(self, album: Album, targets: list[Picture8], hashed: Logits) -> list[Picture8]:
        """Targets with the residuals that their codes predict."""
        residuals = album.residuals.reshape(len(album.marked), -1)
        inputs = _features(album.seen.hashed)
        gram = inputs.T @ inputs + self.penalty * np.eye(inputs.shape[1], dtype=np.float32)
        predicted = _features(hashed) @ np.linalg.solve(gram, inputs.T @ residuals)
        strength = np.sqrt((residuals**2).mean() / (predicted**2).mean(axis=1, keepdims=True))
        pictures = np.stack([to_float(target) for target in targets])
        forged = pictures + (predicted * strength).reshape(pictures.shape)
        return [to_8_bit(picture) for picture in np.clip(forged, 0, 1)]


def _features(hashed: Logits) -> Logits:
    signs = np.where(hashed > 0, 1, -1).astype(np.float32)
    return np.concatenate([signs, np.ones((len(signs), 1), dtype=np.float32)], axis=1)

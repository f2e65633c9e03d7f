"""Training photos of a watermark: cached small, cropped and mirrored at random."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from coverlock_training.photos import Bytes, cached_rows, rounded, square

MARGIN = 1.1
"""Pictures are kept this much larger than the network's input, as MBRS does, and cropped."""


class TrainingPhotos:
    """Photos as 8-bit squares in a memory-mapped file, so that loading never holds training up."""

    def __init__(self, paths: Sequence[Path], size: int, cache: Path) -> None:
        self.size, side = size, round(size * MARGIN)
        self.pictures: Bytes = cached_rows(
            paths, cache, "photos", lambda path: rounded(square(path, side)), side=side
        )

    def __len__(self) -> int:
        return len(self.pictures)

    def batch(self, count: int, rng: np.random.Generator) -> Tensor:
        """``count`` different photos (count, 3, size, size) in [0, 1], cropped and mirrored."""
        rows = rng.choice(len(self), min(count, len(self)), replace=False)
        spare = self.pictures.shape[2] - self.size + 1
        places = rng.integers(spare, size=(len(rows), 2))
        flips = rng.random(len(rows)) < 0.5
        crops = np.empty((len(rows), 3, self.size, self.size), np.uint8)
        for place, (row, (top, left), flip) in enumerate(zip(rows, places, flips, strict=True)):
            crop = self.pictures[row, :, top : top + self.size, left : left + self.size]
            crops[place] = crop[:, :, ::-1] if flip else crop
        return torch.from_numpy(crops).float() / 255

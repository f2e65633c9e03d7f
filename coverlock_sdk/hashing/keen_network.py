"""The backbone of ``keen``: that of ``nano`` with larger windows, and an eye for faint detail."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from coverlock_sdk.hashing.local_contrast import FLOOR, blur_matrix
from coverlock_sdk.hashing.network import NanoBackbone, mean_of_picture, normalise

ZOOMS = (1.0, 0.77, 0.59, 0.46, 0.35)


class KeenBackbone(NanoBackbone):
    """Windows of 80 pixels in four channels: colour, and light with local contrast evened out.

    Evened out, the words on a page or the fields of a card weigh as much as their layout does.
    """

    blur: Tensor

    def __init__(
        self,
        size: int = 160,
        side: int = 80,
        zooms: Sequence[float] = ZOOMS,
        widths: Sequence[int] = (32, 64, 160),
        depths: Sequence[int] = (1, 2, 2),
        layouts: int = 4,
    ) -> None:
        super().__init__(size, side, zooms, widths, depths, layouts, channels=4)
        self.register_buffer("blur", torch.from_numpy(blur_matrix(side)), persistent=False)

    def see(self, views: Tensor) -> Tensor:
        """(N, 3, side, side) in [0, 1] -> (N, 4, side, side)."""
        views = views.float()
        centred = views - mean_of_picture(views)
        contrast = mean_of_picture(centred.square())
        light = centred.mean(dim=1, keepdim=True)
        fine = light - self.blur @ light @ self.blur.T
        energy = self.blur @ fine.square() @ self.blur.T
        evened = fine / (energy + FLOOR**2 * contrast + 1e-5).sqrt()
        return torch.cat([normalise(views), evened / (1 + evened.square()).sqrt()], dim=1)

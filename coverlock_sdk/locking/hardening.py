"""Hardening: move a marked picture a little, so that distortions do not move its code.

Ours, not the paper's. The embedder may change the picture, so it can push those hash logits
that lie near zero away from it. What is pushed is a residual whose gradient is taken through
randomly drawn distortions; without them it would not survive any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Images
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.errors import CoverLockError, needs

if TYPE_CHECKING:
    import torch

    from coverlock_sdk.training.hashes.views import Composition

MOST_COST = 0.5
"""Decibels that a marked picture may lose."""

PEAK = 4.0
"""Largest value of a residual, in multiples of its allowed deviation: no spot stands out."""

Signs = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Hardening:
    """How the residual is found; chosen on the photos that training holds out."""

    steps: int = 24
    views: int = 4
    """Views whose gradients are averaged in a step: one as it is, the others distorted."""
    rate: float = 0.15
    """Length of the first step as a share of the largest residual; it falls to zero."""
    momentum: float = 0.9
    sharpness: float = 8.0
    """How quickly a bit stops to count as its logit leaves zero, on either side of it."""
    cost: float = 0.55
    """Decibels aimed at; carried to the picture's size, a residual loses some of its energy."""
    seed: int = 0


class Hardener:
    """Pushes the logits of one hash, by gradients through its PyTorch module."""

    def __init__(self, image_hash: ImageHash, settings: Hardening | None = None) -> None:
        self.settings = settings or Hardening()
        self._module = _module(image_hash)
        self._size = image_hash.input_size[0]
        self.size = _working_size(self._size)
        """Height and width at which pictures are taken, and residuals given back."""

    def residual(
        self, view: Images, chosen: npt.NDArray[np.int64], signs: Signs, mean_square: float
    ) -> Images:
        """What to add to a marked picture, seen as ``view`` (3, *size), of at most ``mean_square``.

        The logits at ``chosen`` are to keep ``signs``, whatever happens to the picture.
        """
        import torch

        from coverlock_sdk.training.hashes.views import composed

        undistorted, distortions = _distortions()
        settings, picture = self.settings, torch.from_numpy(view)
        rng = np.random.default_rng(settings.seed)
        wanted, places = torch.from_numpy(signs), torch.from_numpy(chosen)
        radius = (mean_square * picture.numel()) ** 0.5
        whole = torch.ones(settings.views)
        residual = torch.zeros_like(picture, requires_grad=True)
        direction = torch.zeros_like(picture)
        for step in range(settings.steps):
            copies = (picture + residual).expand(settings.views, -1, -1, -1)
            distorted = composed(copies[1:], self._size, distortions, whole[1:], rng)
            clean = composed(copies[:1], self._size, undistorted, whole[:1], rng)
            logits = self._module(torch.cat([clean, distorted]))
            flipped = torch.sigmoid(-settings.sharpness * wanted * logits[:, places])
            [gradient] = torch.autograd.grad(flipped.mean(), residual)
            direction = settings.momentum * direction + _unit(gradient)
            length = settings.rate * radius * (1 - step / settings.steps)
            with torch.no_grad():
                residual -= length * _unit(direction)
                residual.clamp_(-PEAK * mean_square**0.5, PEAK * mean_square**0.5)
                residual *= min(1.0, radius / max(float(residual.norm()), 1e-12))
        found: Images = residual.detach().numpy()
        return found


def _unit(values: torch.Tensor) -> torch.Tensor:
    return values / values.norm().clamp(min=1e-12)


def _distortions() -> tuple[Composition, Composition]:
    """None at all, and about one at a time as pictures meet them: crops, which harm most, most."""
    from coverlock_sdk.training.hashes.views import Composition

    nothing = Composition(crop=0, brightness=0, contrast=0, blur=0, noise=0)
    factors = (0.7, 1.3)
    some = Composition(
        crop=0.45,
        brightness=0.2,
        brightness_factor=factors,
        contrast=0.15,
        contrast_factor=factors,
        blur=0.1,
        noise=0.15,
    )
    return nothing, some


def _working_size(side: int) -> tuple[int, int]:
    from coverlock_sdk.training.hashes.views import CACHED

    return (max(side, CACHED),) * 2


def _module(image_hash: ImageHash) -> torch.nn.Module:
    with needs("hardening, which follows gradients,", "PyTorch", "torch"):
        import torch  # noqa: F401
    module = image_hash.module()
    if module is None:
        raise CoverLockError(
            f"the hash '{image_hash.name}' has no PyTorch module, which hardening needs: "
            "use 'nano', or embed without hardening"
        )
    return module.requires_grad_(False)

"""What a white-box attacker has of a hash: the network, its weights and gradients, not the key."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from coverlock_sdk import ImageHash
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.images.resampling import resample_matrix
from coverlock_sdk.loading import load_hash


class WhiteBox(Protocol):
    """A hash as its attacker sees it: differentiable, with guesses where the key would decide."""

    def logits(self, pictures: Tensor, rng: np.random.Generator) -> Tensor:
        """Logits (N, D) of ``pictures`` (N, 3, H, W), all of them seen through the same guess."""
        ...


@dataclass(frozen=True)
class Public:
    """A hash as it is published: nothing about it is secret."""

    name: str

    def logits(self, pictures: Tensor, rng: np.random.Generator) -> Tensor:
        """Its 256 logits."""
        module, side = module_of(self.name)
        logits: Tensor = module(resampled(pictures, side))
        return logits


def white_box(name: str) -> WhiteBox:
    """The differentiable version of the hash ``name``."""
    module_of(name)
    return Public(name)


def resampled(pictures: Tensor, side: int) -> Tensor:
    """``coverlock_sdk.images.resampling`` with a gradient: (N, 3, H, W) -> (N, 3, side, side)."""
    rows, columns = (
        torch.from_numpy(np.array(resample_matrix(source, side)))
        for source in (pictures.shape[-2], pictures.shape[-1])
    )
    return rows @ pictures @ columns.T


@cache
def module_of(hash: str | ImageHash) -> tuple[nn.Module, int]:
    """The differentiable version of a hash, and the side of its input."""
    image_hash = load_hash(hash)
    module = image_hash.module()
    if module is None:
        raise CoverLockError(f"there is no differentiable version of the hash '{image_hash.name}'")
    return module.requires_grad_(False).eval(), image_hash.input_size[0]

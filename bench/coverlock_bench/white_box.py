"""What a white-box attacker has of a hash: the network, its weights and gradients, not the key."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from coverlock_bench.levers import draw_views
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.hashing import dct, nano
from coverlock_sdk.hashing.network import HashNetwork
from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.resampling import resample_matrix


class WhiteBox(Protocol):
    """A hash as its attacker sees it: differentiable, with guesses where the key would decide."""

    def logits(self, pictures: Tensor, rng: np.random.Generator) -> Tensor:
        """Logits (N, D) of ``pictures`` (N, 3, H, W), all of them seen through the same guess."""
        ...


@dataclass(frozen=True)
class Nano:
    """``nano``: nothing about it is secret."""

    def logits(self, pictures: Tensor, rng: np.random.Generator) -> Tensor:
        """Its 256 logits."""
        logits: Tensor = _nano()(resampled(pictures, _nano().backbone.size))
        return logits


@dataclass(frozen=True)
class Dct:
    """``dct``, written again for its gradient."""

    def logits(self, pictures: Tensor, rng: np.random.Generator) -> Tensor:
        """Its 256 logits."""
        to_ycc, basis, matrix, mean = _dct()
        channels = torch.einsum("cd,ndhw->nchw", to_ycc, resampled(pictures, dct.SIDE))
        spectrum = basis @ channels @ basis.T
        low = {
            b: torch.from_numpy(dct._low_frequencies(b)) for b in (dct.LUMA_BAND, dct.CHROMA_BAND)
        }
        luma = spectrum[:, 0][:, low[dct.LUMA_BAND]]
        chroma = spectrum[:, 1:][:, :, low[dct.CHROMA_BAND]].flatten(1)
        parts = [
            values / values.norm(dim=1, keepdim=True).clamp(min=least)
            for values, least in ((luma, dct.LEAST_CONTRAST), (chroma, dct.LEAST_COLOUR))
        ]
        logits: Tensor = (torch.cat(parts, dim=1) - mean) @ matrix
        return logits


@dataclass(frozen=True)
class Several:
    """Several hashes at once, each brought to logits of mean magnitude one."""

    inner: tuple[WhiteBox, ...]

    def logits(self, pictures: Tensor, rng: np.random.Generator) -> Tensor:
        """The first bits of each hash, as ``SeveralHashes`` takes them."""
        share = CODE_BITS // len(self.inner)
        parts = [hash.logits(pictures, rng)[:, :share] for hash in self.inner]
        return torch.cat([part / part.detach().abs().mean() for part in parts], dim=1)


@dataclass(frozen=True)
class GuessedViews:
    """A hash behind secret or random views: the attacker draws their own, new ones at each step."""

    inner: WhiteBox
    views: int
    least: float
    covered: float
    noise: float = 0.0
    """Deviation of noise that is added to every view."""

    def logits(self, pictures: Tensor, rng: np.random.Generator) -> Tensor:
        """The mean of the logits over freshly drawn views."""
        height, width = pictures.shape[-2:]
        total = torch.zeros(())
        for view in draw_views(rng, self.views, self.least, self.covered):
            visible = torch.from_numpy(view.visible(height, width))
            rows, columns = view.window(height, width)
            seen = (0.5 + (pictures - 0.5) * visible)[:, :, rows, columns]
            grain = rng.standard_normal(seen.shape[1:], dtype=np.float32)
            total = total + self.inner.logits(seen + self.noise * torch.from_numpy(grain), rng)
        return total / self.views


def white_box(name: str) -> WhiteBox:
    """The differentiable version of the hash ``name``."""
    known: dict[str, WhiteBox] = {"nano": Nano(), "dct": Dct()}
    if name not in known:
        raise CoverLockError(
            f"there is no differentiable version of the hash '{name}': use {' or '.join(known)}"
        )
    return known[name]


def resampled(pictures: Tensor, side: int) -> Tensor:
    """``coverlock_sdk.resampling`` with a gradient: (N, 3, H, W) -> (N, 3, side, side)."""
    rows, columns = (
        torch.from_numpy(np.array(resample_matrix(source, side)))
        for source in (pictures.shape[-2], pictures.shape[-1])
    )
    return rows @ pictures @ columns.T


@lru_cache(maxsize=1)
def _nano() -> HashNetwork:
    return nano.network().requires_grad_(False)


@lru_cache(maxsize=1)
def _dct() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    weights = dct._weights()
    matrix = weights["whitening"] @ weights["projection"]
    arrays = (dct._RGB_TO_YCC, dct._dct_basis(dct.SIDE), matrix, weights["mean"])
    to_ycc, basis, directions, mean = (torch.from_numpy(np.array(array)) for array in arrays)
    return to_ycc, basis, directions, mean

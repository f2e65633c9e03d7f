"""Hardening: move a marked picture a little, so that distortions do not move its code.

Ours, not the paper's. The embedder may change the picture, so it can push those hash logits
that lie near zero away from it, as the gradient of the hash says. A few steps are enough, and they
are taken on what the hash sees of the picture, as it is and cropped in turn: crops flip most bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.contract import Differentiable, ImageHash
from coverlock_sdk.images.resampling import window_matrix

MOST_COST = 0.5
"""Decibels that a marked picture may lose."""


@dataclass(frozen=True)
class Hardening:
    """How the residual is found; chosen on the photos that training holds out."""

    steps: int = 8
    """Steps at most. A hash that moves readily under a small change needs many small ones."""
    margin: float = 0.3
    """How far from zero logits are to be, in multiples of the picture's typical logit."""
    pace: float = 0.35
    """The share that one step makes up of what logits lack, if the hash were linear."""
    momentum: float = 0.5
    crops: tuple[float, ...] = (1.0, 0.8)
    """Shares of the picture's area that the hash is shown, in turn."""
    enough: float = 0.65
    """The share of the longest allowed residual after which a picture is done."""
    cost: float = 0.55
    """Decibels aimed at; carried to the picture's size, a residual loses some of its energy."""


class Wanted(NamedTuple):
    """What one picture is to hold on to, and what that may cost."""

    directions: Logits
    """(256, bits): hash logits times these are the logits whose signs lock the message."""
    signs: Logits
    """(bits,) of -1 and 1."""
    mean_square: float
    """The most that a residual may have."""


class Hardener:
    """Pushes the logits of one hash, by its gradients."""

    def __init__(self, image_hash: ImageHash, settings: Hardening | None = None) -> None:
        self.settings = settings or Hardening()
        self.size = image_hash.input_size
        """Height and width of what the hash sees."""
        self.refusal = (
            f"the hash '{image_hash.name}' has no gradients (ImageHash.differentiable), so marked "
            "pictures are not hardened: embed with harden=False, or use another hash"
        )
        self._differentiable = image_hash.differentiable

    @cached_property
    def _hash(self) -> Differentiable | None:
        return self._differentiable()

    @property
    def possible(self) -> bool:
        """Whether the hash has gradients; ``refusal`` says that it has none."""
        return self._hash is not None

    def residual(self, view: Images, wanted: Wanted) -> Images:
        """What to add to a marked picture, seen as ``view`` (3, H, W).

        Pictures take their steps one by one: a batch would be no faster, and its products would
        round otherwise than those of a single picture.
        """
        settings = self.settings
        residual, drift = np.zeros_like(view), np.zeros_like(view)
        longest = (wanted.mean_square * view.size) ** 0.5
        for step in range(settings.steps):
            area = settings.crops[step % len(settings.crops)]
            push = self._push(view + residual, wanted, area)
            drift = settings.momentum * drift + _at_most(push, longest / 2)
            residual = _at_most(residual + drift, longest)
            if _length(residual) >= settings.enough * longest:
                break
        return residual

    def _push(self, view: Images, wanted: Wanted, area: float) -> Images:
        """A step along the gradient, as long as it takes a linear hash to make up for a share."""
        assert self._hash is not None
        (height, width), zoom = view.shape[1:], area**0.5
        rows = window_matrix(height, self.size[0], zoom)
        columns = window_matrix(width, self.size[1], zoom)
        seen: Images = np.matmul(np.matmul(rows, view), columns.T)[None]
        logits, gradient = self._hash(seen)
        margin = self.settings.margin * np.sqrt(np.square(logits).mean())
        lacks = np.maximum(margin - wanted.signs * (logits[0] @ wanted.directions), 0)
        [found] = gradient((wanted.directions @ (wanted.signs * lacks))[None])
        push: Images = np.matmul(np.matmul(rows.T, found), columns)
        share = self.settings.pace * np.square(lacks).sum() / max(np.square(push).sum(), 1e-20)
        return push * np.float32(share)


def _length(residual: Images) -> float:
    return float(np.linalg.norm(residual))


def _at_most(residual: Images, longest: float) -> Images:
    return residual * np.float32(min(1.0, longest / max(_length(residual), 1e-12)))

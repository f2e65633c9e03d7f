"""Hardening: move a marked picture a little, so that distortions do not move its code.

Ours, not the paper's. The embedder may change the picture, so it can push those numbers whose signs
lock the message away from zero. For a linear code the least change that does it is the solution of
a small linear system. For a network it is found by a few steps along the gradient.

Margins help a forger too, because he aims at the same bits, so they are kept small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.contract import Differentiable, ImageHash
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_sdk.images.resampling import resample, window_matrix
from coverlock_sdk.threads import one_thread

MOST_COST = 0.5
"""Decibels that a marked picture may lose."""

MARGIN = 0.3
"""How far from zero numbers are to be, in multiples of the picture's typical one."""


class Wanted(NamedTuple):
    """What one picture is to hold on to, and what that may cost."""

    directions: Logits
    """(dimensions, bits): the code times these are the numbers whose signs lock the message."""
    signs: Logits
    """(bits,) of -1 and 1."""
    mean_square: float
    """The most that a residual may have."""


class Hardener(Protocol):
    """Finds what to add to a marked picture."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of what the hash sees."""
        ...

    def residual(self, view: Images, wanted: Wanted) -> Images:
        """What to add to a marked picture, seen as ``view`` (3, H, W)."""
        ...


def hardener_of(image_hash: ImageHash) -> Hardener | None:
    """The hardener that suits a hash; None if it is neither linear nor has gradients."""
    if isinstance(image_hash, OctaveCode):
        return LinearHardener(image_hash)
    differentiable = image_hash.differentiable()
    if differentiable is None:
        return None
    return GradientHardener(differentiable, image_hash.input_size)


class LinearHardener:
    """The change of least norm that gives bits their margins, in closed form."""

    def __init__(self, code: OctaveCode) -> None:
        self.code, self.size = code, code.input_size

    @one_thread
    def residual(self, view: Images, wanted: Wanted) -> Images:
        """A change (3, 128, 128) of what the code sees; bits with enough margin stay."""
        seen = resample(view, self.size)
        numbers = self.code.logits(seen[None])[0]
        shown = numbers @ wanted.directions
        margin = MARGIN * np.sqrt(np.square(shown).mean())
        lacks = wanted.signs * np.maximum(margin - wanted.signs * shown, 0)
        products = wanted.directions.T @ self.code.gram @ wanted.directions
        products += 1e-6 * np.trace(products) / len(products) * np.eye(len(products))
        steps = np.linalg.solve(products, lacks).astype(np.float32)
        change = self.code.pull_back(wanted.directions @ steps)
        return _at_most(change, (wanted.mean_square * change.size) ** 0.5)


@dataclass(frozen=True)
class GradientHardener:
    """Pushes the logits of a network by its gradients, on the picture as it is and cropped."""

    hash: Differentiable
    size: tuple[int, int]
    steps: int = 8
    pace: float = 0.35
    """The share that one step makes up of what logits lack, if the hash were linear."""
    momentum: float = 0.5
    crops: tuple[float, ...] = (1.0, 0.8)
    """Shares of the picture's area that the hash is shown, in turn."""
    enough: float = 0.65
    """The share of the longest allowed residual after which a picture is done."""

    def residual(self, view: Images, wanted: Wanted) -> Images:
        """Pictures take their steps one by one: a batch would be no faster."""
        residual, drift = np.zeros_like(view), np.zeros_like(view)
        longest = (wanted.mean_square * view.size) ** 0.5
        for step in range(self.steps):
            area = self.crops[step % len(self.crops)]
            push = self._push(view + residual, wanted, area)
            drift = self.momentum * drift + _at_most(push, longest / 2)
            residual = _at_most(residual + drift, longest)
            if np.linalg.norm(residual) >= self.enough * longest:
                break
        return residual

    def _push(self, view: Images, wanted: Wanted, area: float) -> Images:
        """A step along the gradient, as long as it takes a linear hash to make up for a share."""
        (height, width), zoom = view.shape[1:], area**0.5
        rows = window_matrix(height, self.size[0], zoom)
        columns = window_matrix(width, self.size[1], zoom)
        seen: Images = np.matmul(np.matmul(rows, view), columns.T)[None]
        logits, gradient = self.hash(seen)
        margin = MARGIN * np.sqrt(np.square(logits).mean())
        lacks = np.maximum(margin - wanted.signs * (logits[0] @ wanted.directions), 0)
        [found] = gradient((wanted.directions @ (wanted.signs * lacks))[None])
        push: Images = np.matmul(np.matmul(rows.T, found), columns)
        share = self.pace * np.square(lacks).sum() / max(np.square(push).sum(), 1e-20)
        return push * np.float32(share)


def _at_most(residual: Images, longest: float) -> Images:
    return residual * np.float32(min(1.0, longest / max(float(np.linalg.norm(residual)), 1e-12)))

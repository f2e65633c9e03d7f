"""Hardening: change a marked picture slightly, so that distortions do not change its code.

This is our addition to the paper. The embedder may change the picture, so it can push the numbers
whose signs lock the message away from zero. For a linear code, a small linear system gives the
smallest such change. For a network, a few steps along the gradient find one.

Margins also help forgers, because they aim at the same bits, so they are kept small.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.contract import Differentiable, ImageHash
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_sdk.images.resampling import resample, resample_matrix
from coverlock_sdk.threads import one_thread

MOST_COST = 0.5
"""How many decibels of PSNR a marked picture may lose."""

MARGIN = 0.3
"""How far from zero to push the numbers, in multiples of the picture's typical number."""

STEPS, PACE, MOMENTUM = 8, 0.35, 0.5
"""Settings of the gradient search. For a linear hash, a step would close the share ``PACE`` of the
gap."""

CROPS = (1.0, 0.8)
"""Shares of the picture's area that the network sees, one after the other."""

ENOUGH = 0.65
"""The search stops at this share of the largest change allowed."""


class WantedCode(NamedTuple):
    """The code that a picture should have, and the largest change allowed for it."""

    directions: Logits
    """(dimensions, bits): the code times these are the numbers whose signs lock the message."""
    signs: Logits
    """(bits,) of -1 and 1."""
    mean_square: float
    """The largest norm of the change."""


Hardener = Callable[[Images, WantedCode], Images]
"""Returns what to add to a marked picture (3, H, W), at its own size or at the code's."""


def hardener_of(image_hash: ImageHash) -> Hardener | None:
    """The hardener for a hash; None if the hash is not linear and has no gradients."""
    if isinstance(image_hash, OctaveCode):
        return partial(least_change, image_hash)
    gradients = image_hash.differentiable()
    return gradients and partial(change_along_gradients, gradients, image_hash.input_size)


@one_thread
def least_change(code: OctaveCode, view: Images, wanted: WantedCode) -> Images:
    """The change (3, 128, 128), at the code's size, that gives bits their margins."""
    directions, signs, mean_square = wanted
    shown = code.logits(resample(view, code.input_size)[None])[0] @ directions
    margin = MARGIN * np.sqrt(np.square(shown).mean())
    lacks = signs * np.maximum(margin - signs * shown, 0)
    products = directions.T @ code.gram @ directions
    products += 1e-6 * np.trace(products) / len(products) * np.eye(len(products))
    steps = np.linalg.solve(products, lacks).astype(np.float32)
    change = code.pull_back(directions @ steps)
    return _at_most(change, (mean_square * change.size) ** 0.5)


def change_along_gradients(
    hashed: Differentiable, size: tuple[int, int], view: Images, wanted: WantedCode
) -> Images:
    """A change that pushes a network's numbers, for the whole picture and for crops of it."""
    change, drift = np.zeros_like(view), np.zeros_like(view)
    longest = (wanted.mean_square * view.size) ** 0.5
    for step in range(STEPS):
        push = _push(hashed, size, view + change, wanted, CROPS[step % len(CROPS)])
        drift = MOMENTUM * drift + _at_most(push, longest / 2)
        change = _at_most(change + drift, longest)
        if np.linalg.norm(change) >= ENOUGH * longest:
            break
    return change


def _push(
    hashed: Differentiable, size: tuple[int, int], view: Images, wanted: WantedCode, area: float
) -> Images:
    """A step along the gradient, on the middle of a picture."""
    rows, columns = (
        _middle(source, target, area**0.5)
        for source, target in zip(view.shape[1:], size, strict=True)
    )
    logits, gradient = hashed(np.matmul(np.matmul(rows, view), columns.T)[None])
    margin = MARGIN * np.sqrt(np.square(logits).mean())
    lacks = np.maximum(margin - wanted.signs * (logits[0] @ wanted.directions), 0)
    [found] = gradient((wanted.directions @ (wanted.signs * lacks))[None])
    push: Images = np.matmul(np.matmul(rows.T, found), columns)
    share = PACE * np.square(lacks).sum() / max(np.square(push).sum(), 1e-20)
    return push * np.float32(share)


def _middle(source: int, target: int, share: float) -> Images:
    """Weights (target, source) that bring the middle of an axis to ``target`` samples."""
    margin = round((1 - share) * source / 2)
    return np.pad(resample_matrix(source - 2 * margin, target), ((0, 0), (margin, margin)))


def _at_most(change: Images, longest: float) -> Images:
    return change * np.float32(min(1.0, longest / max(float(np.linalg.norm(change)), 1e-12)))

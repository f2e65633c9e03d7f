"""Feature collision: change the target until its hash is the source's, then transplant.

The hash is public, and what a change of a picture does to it is too. No key helps where all of its
numbers agree. The price is a change of the target, within a budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from coverlock_bench.attacks.averaging import REFERENCES
from coverlock_bench.attacks.best_match import BestMatch
from coverlock_sdk import ImageHash, OracleAttack, load_hash
from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.contract import Differentiable, Gradient
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_sdk.images.resampling import resample_matrix
from coverlock_sdk.loading import DEFAULT_HASH
from coverlock_sdk.locking.code_maps import code_map

TOGETHER = 16
"""Pictures that are attacked at once; more would only cost memory."""


@dataclass(frozen=True)
class FeatureCollision(OracleAttack):
    """Projected gradient descent on the target, towards its best match among the references.

    The residual is the true one, as for ``BestMatch``; marks and changes add up in the target.
    """

    name: ClassVar[str] = "feature-collision"

    budget: float = 4.0
    """The largest change of a value, in grey levels of 255."""
    least_psnr: float | None = None
    """A budget in decibels instead: the change may be anywhere, as long as its sum is small."""
    steps: int = 25
    first_step: float = 0.25
    """In units of the budget; later ones shrink to nothing."""
    margin: float = 0.3
    """How far beyond zero a number is pushed, in units of the mean magnitude."""
    hash: str = DEFAULT_HASH
    bits: int | None = None
    """Length of the message, for an attacker of a lock without a key: he knows its numbers."""
    references: int = REFERENCES
    """How many marked pictures there are to choose from."""

    def forge(self, references: Images, targets: Images, *, originals: Images) -> Images:
        """Every target, changed and with the residual of its best match."""
        image_hash = load_hash(self.hash)
        chosen = BestMatch(self.hash).choose(references, targets)
        residuals = references[chosen] - originals[chosen]
        changed = np.empty_like(targets)
        for start in range(0, len(targets), TOGETHER):
            rows = slice(start, start + TOGETHER)
            pasted = targets[rows] + residuals[rows]
            changed[rows] = pasted + self._collide(image_hash, pasted, references[chosen[rows]])
        return np.clip(changed, 0.0, 1.0)

    def _collide(self, image_hash: ImageHash, pasted: Images, sources: Images) -> Images:
        """The change of ``pasted``, within the budget, that brings codes nearest the sources'.

        Steps that grow smaller. A number counts until it has the source's sign and some margin, so
        that no effort goes into those that agree already.
        """
        space: Budget = Peak(self.budget / 255)
        if self.least_psnr is not None:
            space = Energy(self.least_psnr)
        hashed = _at_any_size(differentiable(image_hash), image_hash.input_size)
        directions = np.eye(image_hash.dimensions, dtype=np.float32)
        if self.bits is not None:
            directions = code_map(None, "", self.bits, image_hash.bands).directions(0)
        aim = hashed(sources)[0] @ directions
        signs, enough = np.sign(aim), self.margin * np.abs(aim).mean()
        change = np.zeros_like(pasted)
        for step in range(self.steps):
            logits, gradient = hashed(np.clip(pasted + change, 0, 1))
            lacking = signs * (logits @ directions) < enough
            uphill = gradient((signs * lacking) @ directions.T)
            stride = np.float32(self.first_step * (1 - step / self.steps))
            change = space.within(change + stride * space.stride(uphill))
        return change


def differentiable(image_hash: ImageHash) -> Differentiable:
    """The logits of a hash with their gradient, as anyone can have them."""
    if isinstance(image_hash, OctaveCode):
        return lambda images: (
            image_hash.logits(images),
            lambda weights: np.stack([image_hash.pull_back(row) for row in weights]),
        )
    found = image_hash.differentiable()
    if found is None:
        raise CoverLockError(f"the hash '{image_hash.name}' has no gradients to attack it by")
    return found


def _at_any_size(hashed: Differentiable, size: tuple[int, int]) -> Differentiable:
    """The same for pictures that are resampled to the hash's size first."""

    def resampled(images: Images) -> tuple[Logits, Gradient]:
        rows, columns = map(resample_matrix, images.shape[-2:], size)
        logits, gradient = hashed(np.matmul(np.matmul(rows, images), columns.T))
        return logits, lambda w: np.matmul(np.matmul(rows.T, gradient(w)), columns)

    return resampled


class Budget(Protocol):
    """How far a picture may be changed."""

    def stride(self, gradient: Images) -> Images:
        """As far as the budget goes, along the gradient."""
        ...

    def within(self, change: Images) -> Images:
        """The nearest change that the budget allows."""
        ...


@dataclass(frozen=True)
class Peak:
    """Changes of no value by more than ``limit``."""

    limit: float

    def stride(self, gradient: Images) -> Images:
        """Every value by as much as it may change."""
        return np.float32(self.limit) * np.sign(gradient)

    def within(self, change: Images) -> Images:
        """Every value cut off at the limit."""
        return np.clip(change, -np.float32(self.limit), np.float32(self.limit))


@dataclass(frozen=True)
class Energy:
    """Changes that leave a picture at ``least_psnr`` decibels or more."""

    least_psnr: float

    def stride(self, gradient: Images) -> Images:
        """A change of all the energy there is."""
        return self._limit / _root_mean_square(gradient) * gradient

    def within(self, change: Images) -> Images:
        """The change, made smaller where it has too much energy."""
        return change * np.minimum(self._limit / _root_mean_square(change), 1)

    @property
    def _limit(self) -> np.float32:
        """The root mean square of a change with that PSNR, for values in [0, 1]."""
        return np.float32(10 ** (-self.least_psnr / 20))


def _root_mean_square(values: Images) -> Images:
    mean = np.square(values).mean(axis=(1, 2, 3), keepdims=True)
    return np.maximum(np.sqrt(mean), np.float32(1e-12))

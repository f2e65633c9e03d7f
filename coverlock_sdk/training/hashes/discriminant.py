"""A head that is computed: the 256 directions of features in which pictures differ most and
distortions change least (linear discriminant analysis).

A hash has to tell photos apart, and drawn pictures of one template. It has to overlook distortions
and, among drawn pictures, the template itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coverlock_sdk.hashing.projection import CODE_BITS, orthogonal_projection
from coverlock_sdk.training.hashes.features import Features

Matrix = npt.NDArray[np.float64]
Layer = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]
"""Weight (outputs, D) and bias (outputs,)."""


@dataclass(frozen=True)
class Discriminant:
    """How much each part of what features show counts, in units of what photos show."""

    between_drawn: float = 1.0
    """Differences between drawn pictures of one template, beside those between photos."""
    distorted_drawn: float = 0.3
    """What distortions do to drawn pictures, beside what they do to photos."""
    templates: float = 0.3
    """What sets templates apart from the mean photo and from one another; it is overlooked."""
    shrinkage: float = 0.2
    """Even noise in all features, in units of the mean noise: pictures are few, features many."""
    preference: float = 0.3
    """How much more than others the steadiest directions count; 0 treats all alike."""
    deviation: float = 1.0
    """Of the logits of photos."""

    def fit(self, photos: Features, drawn: Features, together: int) -> Layer:
        """Weight (256, D) and bias (256,) for features (N, 1 + V, D), the first view being clean.

        ``drawn`` are groups of ``together`` rows of one template each.
        """
        mean, scale = photos[:, 0].mean(axis=0), _spread(photos[:, 0])
        photos, drawn = (photos - mean) / scale, (drawn - mean) / scale
        groups = drawn[:, 0].reshape(-1, together, drawn.shape[-1])
        templates = groups.mean(axis=1)
        within = (groups - templates[:, None]).reshape(-1, drawn.shape[-1])
        different = _scatter(photos[:, 0])
        wanted = different + self.between_drawn * _scatter(within) * together / (together - 1)
        unwanted = (
            _scatter(_changes(photos))
            + self.distorted_drawn * _scatter(_changes(drawn))
            + self.templates * _scatter(templates)
        )
        unwanted += self.shrinkage * np.trace(unwanted) / len(unwanted) * np.eye(len(unwanted))
        directions, steadiness = _leading(wanted, unwanted, CODE_BITS)
        # Few photos leave directions in which none differ; those are not blown up.
        variances = np.einsum("ij,ij->j", directions, different @ directions)
        spread = np.sqrt(np.maximum(variances, 1e-3 * variances.mean()))
        directions *= steadiness ** (self.preference / 2) / spread
        # Rotated, so that every bit is as good as any other.
        logits = directions @ orthogonal_projection(CODE_BITS).astype(np.float64)
        logits *= self.deviation / np.sqrt(
            np.mean(np.einsum("ij,ij->j", logits, different @ logits))
        )
        weight = (logits / scale[:, None]).T
        return weight.astype(np.float32), -(weight @ mean).astype(np.float32)


@dataclass(frozen=True)
class Separation:
    """A direction that tells pictures of templates from photos (regularised least squares)."""

    shrinkage: float = 0.05
    """Even noise in all features, in units of the variance of photos."""
    steepness: float = 6.0
    """Logit of a picture of a template where the two kinds lie apart without overlap."""
    caution: float = 1.5
    """Taken off every logit, so that photos stay photos under distortion."""

    def fit(self, photos: Features, drawn: Features) -> Layer:
        """Weight (1, D) and bias (1,) for features (N, 1 + V, D) in all their views."""
        sides = [kind.reshape(-1, kind.shape[-1]).astype(np.float64) for kind in (photos, drawn)]
        mean, scale = sides[0].mean(axis=0), _spread(sides[0])
        size = len(mean)
        moments, aims = self.shrinkage * np.eye(size + 1), np.zeros(size + 1)
        for side, label in zip(sides, (-1.0, 1.0), strict=True):
            rows = np.pad((side - mean) / scale, ((0, 0), (0, 1)), constant_values=1.0)
            moments += 0.5 * rows.T @ rows / len(rows)
            aims += 0.5 * label * rows.mean(axis=0)
        direction = self.steepness * np.linalg.solve(moments, aims)
        weight = direction[:-1] / scale
        bias = direction[-1] - weight @ mean - self.caution
        return weight[None].astype(np.float32), np.array([bias], np.float32)


def _changes(features: Features) -> Features:
    """What distortions change: (N, 1 + V, D) -> (N * V, D)."""
    return (features[:, 1:] - features[:, :1]).reshape(-1, features.shape[-1])


def _spread(rows: Features | Matrix) -> Matrix:
    """The deviation of each feature, but none so small that its noise would be blown up."""
    deviations = rows.std(axis=0, dtype=np.float64)
    spread: Matrix = np.maximum(deviations, 1e-3 * np.median(deviations) + 1e-9)
    return spread


def _scatter(rows: Features) -> Matrix:
    rows = rows.astype(np.float64)
    scatter: Matrix = rows.T @ rows / len(rows)
    return scatter


def _leading(wanted: Matrix, unwanted: Matrix, count: int) -> tuple[Matrix, Matrix]:
    """The ``count`` directions (D, count) with the largest ratio of both, and that ratio."""
    triangle = np.linalg.inv(np.linalg.cholesky(unwanted))
    ratios, vectors = np.linalg.eigh(triangle @ wanted @ triangle.T)
    largest = np.argsort(ratios)[::-1][:count]
    kept = np.maximum(ratios[largest], 0)
    return triangle.T @ vectors[:, largest], kept / kept[0]

"""Key recovery by linear learners: each payload bit as the sign of a mixture of hash logits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coverlock_bench.knowing.codes import Released, directions
from coverlock_sdk.arrays import Bits, Floats, Logits


@dataclass(frozen=True)
class Ridge:
    """Has the decoder and released pictures of one identifier; least squares."""

    penalty: float = 1.0

    def payloads(self, released: Released, targets: Logits, rng: np.random.Generator) -> Bits:
        """The signs of the fitted mixtures."""
        weights = ridge(released.directions, released.signs, self.penalty)
        return (directions(targets) @ weights > 0).astype(np.uint8)


@dataclass(frozen=True)
class Logistic:
    """Has the decoder and released pictures of one identifier; logistic regression."""

    penalty: float = 0.01
    steps: int = 150

    def payloads(self, released: Released, targets: Logits, rng: np.random.Generator) -> Bits:
        """The signs of the fitted mixtures."""
        weights = logistic(released.directions, released.signs, self.penalty, self.steps)
        return (directions(targets) @ weights > 0).astype(np.uint8)


def ridge(inputs: Floats, signs: Floats, penalty: float) -> Floats:
    """Weights (256, bits) that give ``signs`` (N, bits) from ``inputs`` (N, 256), shrunken."""
    gram = inputs.T @ inputs + penalty * np.eye(inputs.shape[1])
    return np.asarray(np.linalg.solve(gram, inputs.T @ signs), dtype=np.float64)


def logistic(inputs: Floats, signs: Floats, penalty: float, steps: int) -> Floats:
    """The same by logistic regression: accelerated gradient descent from zero."""
    inputs = np.asarray(inputs * inputs.shape[1] ** 0.5, np.float64)  # values around one
    curvature = np.linalg.norm(inputs, ord=2) ** 2 / (4 * len(inputs)) + penalty
    weights = ahead = np.zeros((inputs.shape[1], signs.shape[1]))
    for step in range(steps):
        doubt = signs / (1 + np.exp(np.minimum(signs * (inputs @ ahead), 50)))
        moved = ahead + (inputs.T @ doubt / len(inputs) - penalty * ahead) / curvature
        weights, ahead = moved, moved + step / (step + 3) * (moved - weights)
    return weights

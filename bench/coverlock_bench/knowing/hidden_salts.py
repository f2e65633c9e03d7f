"""Key recovery for those who know scheme 2: find out which pictures share a salt, then learn.

Payload bits of two pictures under one salt agree as often as the angle of their hash logits says;
under different salts they agree at random. A spectral clustering of all pairs gives a first guess
of the salts, and rounds of expectation and maximisation improve on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coverlock_bench.knowing.codes import Released, directions
from coverlock_bench.knowing.linear import logistic
from coverlock_sdk.arrays import Bits, Floats, Logits

Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class HiddenSalts:
    """Has the decoder, released pictures of one identifier, and this code."""

    rounds: int = 6
    least: int = 20
    """Pictures that a salt must have on average; with fewer, fewer salts are looked for."""
    penalty: float = 1.0

    def payloads(self, released: Released, targets: Logits, rng: np.random.Generator) -> Bits:
        """What the salt with the most pictures says of each target."""
        inputs, signs = released.directions, released.signs
        salts = max(1, min(released.salts, len(inputs) // self.least))
        labels = first_guess(inputs, signs, salts, rng)
        for _ in range(self.rounds):
            likelihoods = [
                _log_likelihood(inputs, signs, labels == salt, self.penalty)
                for salt in range(salts)
            ]
            labels = np.argmax(likelihoods, axis=0)
        return learned_from(released, labels == np.bincount(labels).argmax(), targets)


def learned_from(released: Released, chosen: npt.NDArray[np.bool_], targets: Logits) -> Bits:
    """What logistic regression on the ``chosen`` pictures says of each target."""
    weights = logistic(released.directions[chosen], released.signs[chosen], 0.01, 150)
    return (directions(targets) @ weights > 0).astype(np.uint8)


def first_guess(inputs: Floats, signs: Floats, salts: int, rng: np.random.Generator) -> Labels:
    """Clusters of pictures whose payloads agree as their hashes do."""
    from scipy.cluster.vq import kmeans2
    from scipy.sparse.linalg import eigsh

    expected = np.arcsin(np.clip(inputs @ inputs.T, -1, 1)).astype(np.float32)
    evidence = expected * (signs.astype(np.float32) @ signs.T.astype(np.float32))
    np.fill_diagonal(evidence, 0)
    if salts == 1:
        return np.zeros(len(inputs), dtype=np.int64)
    start = rng.standard_normal(len(inputs)).astype(np.float32)
    values, vectors = eigsh(evidence, k=min(salts, len(inputs) - 1), which="LA", v0=start)
    labels: Labels = kmeans2(vectors * values, salts, minit="++", rng=rng)[1].astype(np.int64)
    return labels


def _log_likelihood(
    inputs: Floats, signs: Floats, members: npt.NDArray[np.bool_], penalty: float
) -> Floats:
    """How well the members of a cluster predict each picture, members by all other members."""
    own = inputs[members]
    inverse = np.linalg.inv(own.T @ own + penalty * np.eye(inputs.shape[1]))
    predicted = inputs @ (inverse @ (own.T @ signs[members]))
    leverage = ((own @ inverse) * own).sum(axis=1, keepdims=True)
    predicted[members] = (predicted[members] - leverage * signs[members]) / (1 - leverage)
    total: Floats = -np.logaddexp(0, -3 * signs * predicted).sum(axis=1)
    return total

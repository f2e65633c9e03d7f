"""From a logit to the probability that its bit is right, which is what the soft rule weighs by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Floats

MAX_CONFIDENCE = 0.9999
"""No bit is trusted more than this: one confident error must not outweigh everything else."""

POWERS = (0.05, 8.0)
"""Bounds of a fitted power; beyond the upper one the curve is a threshold."""


@dataclass(frozen=True)
class Calibration:
    """The log-odds that a bit is right are scale * |logit|^power.

    A power of 1 takes logits as log-odds, up to scale; distortions of very different strength
    flatten the curve, to powers below 1.
    """

    scale: float = 1.0
    power: float = 1.0

    def confidence(self, logits: npt.ArrayLike) -> Floats:
        """The probability, in [0.5, MAX_CONFIDENCE], that each logit has the right sign."""
        magnitude = np.abs(np.asarray(logits, dtype=np.float64))
        log_odds = np.minimum(self.scale * magnitude**self.power, 50)
        return np.minimum(1.0 / (1.0 + np.exp(-log_odds)), MAX_CONFIDENCE)

    @classmethod
    def fit(cls, logits: npt.ArrayLike, bits: npt.ArrayLike) -> Calibration:
        """The most likely scale and power for logits and the bits they should have shown.

        Two pseudo-observations at the mean magnitude, one right and one wrong, keep the fit
        finite when every bit of the sample happens to be right.
        """
        values = np.asarray(logits, dtype=np.float64).ravel()
        right = (values > 0) == (np.asarray(bits).ravel() > 0)
        unit = float(np.abs(values).mean()) or 1.0
        sample = _Sample(
            np.append(np.maximum(np.abs(values) / unit, 1e-6), [1, 1]),
            np.append(right, [True, False]).astype(np.float64),
        )
        point = np.log([2.0, 0.7])
        for _ in range(100):
            step, least = sample.step(point), sample.log_likelihood(point)
            least -= 1e-12 * abs(least)  # sums are rounded
            while sample.log_likelihood(point + step) < least and np.abs(step).max() > 1e-9:
                step = step / 2
            point = point + step
            if np.abs(step).max() < 1e-9:
                break
        scale, power = map(float, np.exp(point))
        return cls(scale=scale / unit**power, power=power)


@dataclass(frozen=True)
class _Sample:
    """Magnitudes of logits and whether their bits were right, to fit a curve to.

    A point is the logarithms of scale and power.
    """

    magnitude: Floats
    outcome: Floats

    def step(self, point: Floats) -> Floats:
        """The Newton step towards the largest likelihood, up to a bound and not too far.

        At a bound beyond which the best power lies, it is the way of scale alone.
        """
        log_odds, power = self._log_odds(point), np.exp(point[1])
        expected = 1.0 / (1.0 + np.exp(-np.minimum(log_odds, 50)))
        slopes = np.stack([log_odds, log_odds * power * np.log(self.magnitude)])
        gradient = slopes @ (self.outcome - expected)
        curvature = (slopes * (expected * (1 - expected))) @ slopes.T + 1e-6 * np.eye(2)
        step: Floats = np.linalg.solve(curvature, gradient)
        lower, upper = np.log(POWERS)
        room = upper - point[1] if step[1] > 0 else point[1] - lower
        if room < 1e-9:
            step = np.array([gradient[0] / curvature[0, 0], 0.0])
        elif abs(step[1]) > room:
            step = step * (room / abs(step[1]))
        return step / max(1.0, 2 * np.abs(step).max())

    def log_likelihood(self, point: Floats) -> float:
        """How likely the outcomes are on the curve of ``point``."""
        log_odds = self._log_odds(point)
        return float((self.outcome * log_odds - np.logaddexp(0, log_odds)).sum())

    def _log_odds(self, point: Floats) -> Floats:
        scale, power = np.exp(point)
        log_odds: Floats = scale * self.magnitude**power
        return log_odds

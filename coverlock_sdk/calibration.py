"""From a logit to the probability that its bit is right, which is what the soft rule weighs by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

MAX_CONFIDENCE = 0.9999
"""No bit is trusted more than this: one confident error must not outweigh everything else."""


@dataclass(frozen=True)
class Calibration:
    """The log-odds that a bit is right are scale * |logit|^power.

    They are zero at zero, where a bit is a coin toss. A power of 1 takes logits as log-odds, up
    to scale; distortions of very different strength flatten the curve, to powers below 1.
    ``fit`` learns the two numbers from logits and the bits they should have shown.
    """

    scale: float = 1.0
    power: float = 1.0

    def confidence(self, logits: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The probability, in [0.5, MAX_CONFIDENCE], that each logit has the right sign."""
        magnitude = np.abs(np.asarray(logits, dtype=np.float64))
        log_odds = np.minimum(self.scale * magnitude**self.power, 50)
        return np.minimum(1.0 / (1.0 + np.exp(-log_odds)), MAX_CONFIDENCE)

    @classmethod
    def fit(cls, logits: npt.ArrayLike, bits: npt.ArrayLike) -> Calibration:
        """Maximum likelihood, by Newton steps on the logarithms of the two numbers.

        Two pseudo-observations at the mean magnitude, one right and one wrong, keep the fit
        finite when every bit of the sample happens to be right.
        """
        values = np.asarray(logits, dtype=np.float64).ravel()
        right = (values > 0) == (np.asarray(bits).ravel() > 0)
        unit = float(np.abs(values).mean()) or 1.0
        magnitude = np.append(np.maximum(np.abs(values) / unit, 1e-6), [1, 1])
        outcome = np.append(right, [True, False]).astype(np.float64)
        log_scale, log_power = np.log(2.0), np.log(0.7)
        for _ in range(100):
            power = np.exp(log_power)
            log_odds = np.exp(log_scale) * magnitude**power
            expected = 1.0 / (1.0 + np.exp(-np.minimum(log_odds, 50)))
            slopes = np.stack([log_odds, log_odds * power * np.log(magnitude)])
            gradient = slopes @ (outcome - expected)
            curvature = (slopes * (expected * (1 - expected))) @ slopes.T + 1e-6 * np.eye(2)
            step = np.clip(np.linalg.solve(curvature, gradient), -0.5, 0.5)
            log_scale, log_power = log_scale + step[0], np.clip(log_power + step[1], -3, 1)
            if np.abs(step).max() < 1e-9:
                break
        power = float(np.exp(log_power))
        return cls(scale=float(np.exp(log_scale)) / unit**power, power=power)

"""Confidence intervals for measured rates and means."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_sdk.errors import needs

BOOTSTRAPS = 2000
LEVEL = 0.95


def rate(successes: int, trials: int) -> dict[str, Any]:
    """A share with its 95 % Clopper-Pearson interval: 0 of 100 is not 0 %."""
    with needs("an interval", "SciPy", "bench"):
        from scipy.stats import binomtest
    interval = binomtest(successes, trials).proportion_ci(LEVEL, method="exact")
    return {
        "successes": successes,
        "trials": trials,
        "rate": successes / trials,
        "low": float(interval.low),
        "high": float(interval.high),
    }


def percentiles(draws: npt.NDArray[np.float64]) -> tuple[float, float]:
    """The middle 95 % of bootstrap draws."""
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)

"""The figures a hash is judged by: stability under distortion, difference between pictures."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from coverlock_sdk.images.distortions import EVALUATION

Codes = npt.NDArray[np.bool_]

MOST_ERROR = 0.10
MOST_BIAS = 0.04
MOST_DEVIATION = 0.06
"""The bar for a head: mean bit error of the six distortions, distance of the mean agreement of
different photos from one half, and the deviation of that agreement."""

ACCEPTED = 167
"""Matches of 256 at which a picture is accepted at a false-positive rate of 1e-6."""


def figures_of(codes: Codes) -> dict[str, float]:
    """The figures of codes (N, 7, 256): clean, and under the six evaluation distortions."""
    clean = codes[:, 0]
    errors = {
        f"error_{name}": float((clean != codes[:, 1 + row]).mean())
        for row, name in enumerate(EVALUATION)
    }
    signs = np.where(clean, 1.0, -1.0)
    agreement = 0.5 + 0.5 * (signs @ signs.T) / clean.shape[1]
    agreement = agreement[np.triu_indices(len(clean), 1)]  # of every pair of different photos
    return {
        "error": float(np.mean(list(errors.values()))),
        **errors,
        "pairs_mean": float(agreement.mean()),
        "pairs_deviation": float(agreement.std()),
        "pairs_accepted": float((agreement >= ACCEPTED / clean.shape[1]).mean()),
        "imbalance": float(np.abs(clean.mean(axis=0) - 0.5).mean()),
    }


def shortcomings(figures: Mapping[str, float]) -> list[str]:
    """Where a hash misses the bar, each in a few words; none if it meets it."""
    error, mean, deviation = (figures[name] for name in ("error", "pairs_mean", "pairs_deviation"))
    found = []
    if not error <= MOST_ERROR:
        found.append(f"the six distortions flip {error:.1%} of its bits (at most {MOST_ERROR:.0%})")
    if not abs(mean - 0.5) <= MOST_BIAS:
        found.append(f"different photos agree in {mean:.3f} (0.5 +- {MOST_BIAS})")
    if not deviation <= MOST_DEVIATION:
        found.append(f"their agreement deviates by {deviation:.3f} (at most {MOST_DEVIATION})")
    return found

"""Rates of trials that share residuals or targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_bench.intervals import LEVEL
from coverlock_sdk.arrays import AnyArray
from coverlock_sdk.errors import needs


def clustered_rate(
    accepted: npt.ArrayLike, scores: npt.ArrayLike, *clusters: npt.ArrayLike
) -> dict[str, Any]:
    """A share of trials that share residuals or targets, with an interval that admits it.

    Korn and Graubard (1998): the Clopper-Pearson interval of as many independent trials as these
    are worth. What they are worth is the design effect of ``clusters``, each a label a trial,
    estimated on ``accepted`` and on the continuous ``scores`` behind it, whichever is worse: where
    nothing was accepted, only the scores can tell how alike the trials of one cluster are.
    """
    with needs("an interval", "SciPy", "bench"):
        from scipy.stats import beta
    passed = np.asarray(accepted, dtype=np.float64)
    groups = [np.unique(np.asarray(labels), return_inverse=True)[1] for labels in clusters]
    effect = max(
        _design_effect(values, groups) for values in (passed, np.asarray(scores, dtype=np.float64))
    )
    worth, successes = len(passed) / effect, passed.sum() / effect
    tail = (1 - LEVEL) / 2
    low = beta.ppf(tail, successes, worth - successes + 1) if successes else 0.0
    high = beta.ppf(1 - tail, successes + 1, worth - successes) if successes < worth else 1.0
    return {
        "successes": int(passed.sum()),
        "trials": len(passed),
        "rate": float(passed.mean()),
        "low": float(low),
        "high": float(high),
        "worth": float(worth),
        "clusters": [int(labels.max()) + 1 for labels in groups],
    }


def _design_effect(values: npt.NDArray[np.float64], groups: Sequence[AnyArray]) -> float:
    """By how much the variance of the mean of ``values`` exceeds that of independent ones."""
    effect = 1.0
    for labels in groups:
        sizes = np.bincount(labels)
        largest = float(np.square(sizes).sum() / len(values))
        effect += max(largest - 1, 0.0) * _intraclass_correlation(values, labels, sizes)
    return effect


def _intraclass_correlation(
    values: npt.NDArray[np.float64], labels: AnyArray, sizes: AnyArray
) -> float:
    """How alike values of one group are, from 0 to 1, by a one-way analysis of variance."""
    count, groups = len(values), len(sizes)
    if groups < 2 or groups == count or not values.var():
        return 0.0
    means = np.bincount(labels, weights=values) / sizes
    between = float((sizes * np.square(means - values.mean())).sum() / (groups - 1))
    within = float(np.square(values - means[labels]).sum() / (count - groups))
    usual = (count - np.square(sizes).sum() / count) / (groups - 1)
    return float(np.clip((between - within) / (between + (usual - 1) * within), 0.0, 1.0))

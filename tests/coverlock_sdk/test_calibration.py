from __future__ import annotations

import numpy as np
import pytest

from coverlock_sdk import Calibration
from coverlock_sdk.calibration import MAX_CONFIDENCE, POWERS


@pytest.mark.parametrize(
    ("scale", "power"), [(0.9, 0.6), (5.5, 0.37), (2.0, 1.0), (0.5, 2.0), (1.0, 4.0), (0.1, 6.0)]
)
def test_fit_recovers_the_numbers_that_made_the_sample(scale, power):
    rng = np.random.default_rng(0)
    most = (4 / scale) ** (1 / power)  # where the log-odds are four
    logits = rng.uniform(0, most, 60_000)
    right = rng.random(60_000) < 1 / (1 + np.exp(-scale * logits**power))
    fitted = Calibration.fit(logits, right)
    assert fitted.scale == pytest.approx(scale, rel=0.06)
    assert fitted.power == pytest.approx(power, rel=0.06)


@pytest.mark.parametrize("bound", POWERS)
def test_where_the_best_power_is_out_of_bounds_the_scale_is_the_best_for_the_bound(bound):
    rng = np.random.default_rng(0)
    logits = rng.uniform(0, 2, 20_000)
    steep = np.where(logits > 1, 1.0, 0.5)  # the right side of a threshold, or a coin toss
    falling = 0.9 - 0.2 * logits  # the larger the logit, the less it is to be trusted
    right = rng.random(20_000) < (steep if bound > 1 else falling)
    fitted = Calibration.fit(logits, right)
    assert fitted.power == pytest.approx(bound)

    def likelihood(scale):
        log_odds = scale * logits**fitted.power
        return (right * log_odds - np.logaddexp(0, log_odds)).sum()

    others = [likelihood(factor * fitted.scale) for factor in (0.5, 0.95, 1.05, 2)]
    assert likelihood(fitted.scale) > max(others)


def test_confidence_is_never_below_a_coin_toss_nor_certain():
    confidence = Calibration(scale=2).confidence([-100, -1, 0, 0.1, 100])
    assert confidence.min() == 0.5
    assert confidence.max() == MAX_CONFIDENCE


def test_a_sample_without_errors_still_gives_finite_numbers():
    fitted = Calibration.fit(np.full(1000, 5.0), np.ones(1000))
    assert np.isfinite([fitted.scale, fitted.power]).all()
    assert fitted.confidence(5.0) > 0.99

from __future__ import annotations

import numpy as np
import pytest

from coverlock_sdk import Calibration
from coverlock_sdk.calibration import MAX_CONFIDENCE


def test_fit_recovers_the_numbers_that_made_the_sample():
    rng = np.random.default_rng(0)
    logits = rng.uniform(0, 6, 60_000)
    right = rng.random(60_000) < 1 / (1 + np.exp(-0.9 * logits**0.6))
    fitted = Calibration.fit(logits, right)
    assert fitted.scale == pytest.approx(0.9, abs=0.04)
    assert fitted.power == pytest.approx(0.6, abs=0.04)


def test_confidence_is_never_below_a_coin_toss_nor_certain():
    confidence = Calibration(scale=2).confidence([-100, -1, 0, 0.1, 100])
    assert confidence.min() == 0.5
    assert confidence.max() == MAX_CONFIDENCE


def test_a_sample_without_errors_still_gives_finite_numbers():
    fitted = Calibration.fit(np.full(1000, 5.0), np.ones(1000))
    assert np.isfinite([fitted.scale, fitted.power]).all()
    assert fitted.confidence(5.0) > 0.99

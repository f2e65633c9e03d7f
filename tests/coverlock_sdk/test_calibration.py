import numpy as np
import pytest

from coverlock_sdk import Calibration
from coverlock_sdk.calibration import MAX_CONFIDENCE


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


def test_confidence_is_never_below_a_coin_toss_nor_certain():
    confidence = Calibration(scale=2).confidence([-100, -1, 0, 0.1, 100])
    assert confidence.min() == 0.5
    assert confidence.max() == MAX_CONFIDENCE


def test_a_sample_without_errors_still_gives_finite_numbers():
    fitted = Calibration.fit(np.full(1000, 5.0), np.ones(1000))
    assert np.isfinite([fitted.scale, fitted.power]).all()
    assert fitted.confidence(5.0) > 0.99

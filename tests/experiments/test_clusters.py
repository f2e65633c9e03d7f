import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coverlock_bench.intervals import rate
from experiments.clusters import clustered_rate


@given(st.integers(0, 40), st.integers(0, 1000))
def test_trials_of_their_own_get_the_usual_interval(successes, seed):
    passed = np.arange(40) < successes
    scores = np.random.default_rng(seed).random(40)
    found = clustered_rate(passed, scores, np.arange(40), np.arange(40))
    usual = rate(successes, 40)
    assert found["worth"] == pytest.approx(40)
    assert (found["low"], found["high"]) == pytest.approx((usual["low"], usual["high"]))


def test_two_residuals_on_a_hundred_targets_are_two_trials_where_the_residual_decides():
    residual = np.repeat([0, 1], 100)
    found = clustered_rate(np.zeros(200), residual, residual, np.tile(np.arange(100), 2))
    assert found["worth"] == pytest.approx(2)
    assert found["high"] > 0.8
    assert found["clusters"] == [2, 100]


def test_where_residuals_do_not_matter_the_trials_count_in_full():
    rng = np.random.default_rng(0)
    residual, target = np.repeat(np.arange(50), 20), np.tile(np.arange(20), 50)
    found = clustered_rate(np.zeros(1000), rng.standard_normal(1000), residual, target)
    assert 500 < found["worth"] <= 1000
    assert found["high"] < 0.01

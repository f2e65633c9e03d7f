import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coverlock_sdk.errors import MessageError
from coverlock_sdk.locking.statistics import (
    binomial_tail,
    check_fpr,
    corrected,
    hard_p_value,
    hard_threshold,
    soft_p_value,
    soft_tail,
    soft_weights,
)


@pytest.mark.parametrize("bits", [1, 8, 30, 32, 64, 100, 256, 1024])
def test_binomial_tail_agrees_with_scipy(bits):
    stats = pytest.importorskip("scipy.stats")
    expected = stats.binom.sf(np.arange(bits + 1) - 1, bits, 0.5)
    np.testing.assert_allclose(binomial_tail(bits), expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("bits", "threshold"), [(30, 28), (32, 30), (64, 51), (100, 74), (256, 167)]
)
def test_hard_thresholds_at_one_in_a_million(bits, threshold):
    assert hard_threshold(bits, 1e-6) == threshold
    assert binomial_tail(bits)[threshold] <= 1e-6 < binomial_tail(bits)[threshold - 1]


@given(st.lists(st.integers(0, 64), min_size=1, max_size=8))
def test_soft_tail_is_exact_for_few_coins(weights):
    weights = np.array(weights)
    sums = [
        sum(w for w, coin in zip(weights, coins, strict=True) if coin)
        for coins in itertools.product((0, 1), repeat=len(weights))
    ]
    tail = soft_tail(weights)
    for score in range(int(weights.sum()) + 1):
        expected = sum(s >= score for s in sums) / len(sums)
        assert tail[score] == pytest.approx(expected, abs=1e-12)


@given(st.integers(1, 256), st.integers(0, 2**32 - 1))
def test_a_soft_p_value_is_the_tail_at_its_score(bits, seed):
    rng = np.random.default_rng(seed)
    matches = rng.random(bits) < rng.random()
    weights = soft_weights(rng.uniform(0.5, 0.9999, bits))
    tail = soft_tail(weights)[int(weights[matches].sum())]
    assert soft_p_value(matches, weights) == pytest.approx(tail, rel=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(900, 1500), st.floats(0, 1))
def test_soft_p_values_of_many_bits_are_those_of_counting_where_all_weigh_the_same(bits, share):
    matches, weights = np.arange(bits) < share * bits, np.full(bits, 3)
    expected = pytest.approx(hard_p_value(matches), rel=1e-9, abs=1e-300)
    assert soft_p_value(matches, weights) == expected
    assert soft_tail(weights)[3 * int(matches.sum())] == expected
    assert soft_tail(weights, 0.8)[[0, -1]] == pytest.approx([1, 0.8**bits])


@given(st.integers(1, 256), st.integers(0, 1000))
def test_more_matches_never_raise_the_p_value(bits, seed):
    rng = np.random.default_rng(seed)
    matches = rng.random(bits) < 0.5
    weights = soft_weights(rng.uniform(0.5, 0.9999, bits))
    better = matches.copy()
    better[int(rng.integers(bits))] = True
    assert hard_p_value(better) <= hard_p_value(matches)
    assert soft_p_value(better, weights) <= soft_p_value(matches, weights)


def test_bits_without_any_confidence_decide_nothing():
    assert soft_p_value(np.ones(20, dtype=bool), soft_weights(np.full(20, 0.5))) == 1.0


@given(st.floats(1e-300, 1.0), st.integers(1, 10**7))
def test_correction_is_between_one_try_and_the_union_bound(p_value, tries):
    value = corrected(p_value, tries)
    assert min(p_value, 1.0) * (1 - 1e-9) <= value <= min(1.0, p_value * tries) * (1 + 1e-9)


def test_too_few_bits_for_the_asked_rate_is_explained():
    with pytest.raises(MessageError, match="16 bits cannot reach .* at least 20 bits"):
        check_fpr(16, 1e-6)
    with pytest.raises(MessageError, match="among 1,000,000 cand.*at least 40 bits.*4,294 cand"):
        check_fpr(32, 1e-6, candidates=10**6)
    with pytest.raises(MessageError, match="strictly between 0 and 1"):
        check_fpr(32, 0)

import numpy as np
import pytest

from coverlock_training.hashes.figures import figures_of, shortcomings


def test_figures_tell_distortions_apart():
    codes = np.random.default_rng(0).random((50, 1, 256)) < 0.5
    codes = np.repeat(codes, 7, axis=1)
    codes[:, 6, :64] ^= True  # a quarter of the bits flips under cropping
    figures = figures_of(codes)
    assert figures["error_crop"] == 0.25
    assert figures["error_jpeg"] == 0
    assert figures["error"] == pytest.approx(0.25 / 6)
    assert figures["pairs_mean"] == pytest.approx(0.5, abs=0.01)
    assert figures["pairs_deviation"] == pytest.approx(1 / 32, abs=0.003)
    assert figures["pairs_accepted"] == 0


GOOD = {"error": 0.1, "pairs_mean": 0.5399, "pairs_deviation": 0.06}


def test_the_bar_is_met_at_the_bar():
    assert shortcomings(GOOD) == []


@pytest.mark.parametrize(
    ("figure", "value", "said"),
    [
        ("error", 0.101, "flip 10.1% of its bits (at most 10%)"),
        ("error", float("nan"), "flip nan% of its bits"),
        ("pairs_mean", 0.55, "agree in 0.550 (0.5 +- 0.04)"),
        ("pairs_mean", 0.45, "agree in 0.450"),
        ("pairs_deviation", 0.07, "deviates by 0.070 (at most 0.06)"),
    ],
)
def test_what_misses_the_bar_is_said(figure, value, said):
    [missed] = shortcomings({**GOOD, figure: value})
    assert said in missed

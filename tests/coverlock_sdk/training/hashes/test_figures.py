from __future__ import annotations

import numpy as np
import pytest

from coverlock_sdk.training.hashes.figures import figures_of, pair_agreement


def test_pair_agreement_counts_equal_bits() -> None:
    codes = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]], dtype=bool)
    assert pair_agreement(codes).tolist() == [0.5, 0.0, 0.5]


def test_figures_tell_distortions_apart() -> None:
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


def test_equal_codes_are_all_accepted() -> None:
    assert figures_of(np.ones((4, 7, 256), dtype=bool))["pairs_accepted"] == 1

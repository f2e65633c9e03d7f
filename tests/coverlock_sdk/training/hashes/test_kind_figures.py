from __future__ import annotations

import numpy as np
import pytest

from coverlock_sdk.training.hashes.kind_figures import kind_figures, selection_odds


def test_equal_codes_always_pass_for_one_another() -> None:
    codes = np.repeat(np.random.default_rng(0).random((1, 256)) < 0.5, 3, axis=0)
    row = kind_figures({"copies": [codes]})["copies"]
    assert row == {"pairs": 3, "mean": 1, "max": 1, "accepted_64": 1, "accepted_256": 1}


def test_pairs_are_counted_within_a_set_only() -> None:
    codes = np.random.default_rng(0).random((8, 256)) < 0.5
    row = kind_figures({"coins": [codes[:4], codes[4:]]})["coins"]
    assert row["pairs"] == 12
    assert row["mean"] == pytest.approx(0.5, abs=0.03)
    assert row["accepted_64"] < 1e-3


def test_odds_are_those_of_random_selections() -> None:
    rng, equal = np.random.default_rng(0), np.arange(256) < 190
    hits = np.array([equal[rng.permutation(256)[:64]].sum() >= 51 for _ in range(4000)])
    assert selection_odds()[190] == pytest.approx(hits.mean(), abs=0.03)
    assert (np.diff(selection_odds()) >= 0).all()

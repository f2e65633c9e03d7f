from __future__ import annotations

import numpy as np

from coverlock_sdk.training.hashes.sampling import Uniform, WithGroups


def test_uniform_rows_are_different_ones() -> None:
    rows = Uniform(10)(6, np.random.default_rng(0))
    assert len(set(rows.tolist())) == 6
    assert len(Uniform(3)(6, np.random.default_rng(0))) == 3


def test_half_of_a_batch_are_whole_groups() -> None:
    rows = WithGroups(photos=20, groups=5, together=4)(16, np.random.default_rng(0))
    photos, groups = rows[:8], rows[8:].reshape(2, 4)
    assert photos.max() < 20
    assert (np.diff(groups, axis=1) == 1).all()
    assert ((groups[:, 0] - 20) % 4 == 0).all()
    assert len(set(rows.tolist())) == 16

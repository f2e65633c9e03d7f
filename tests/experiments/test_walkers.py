from __future__ import annotations

import numpy as np
import pytest

from experiments import walkers as study


def half_space(change):
    """Accepts what goes far enough in one secret direction."""
    return float(change @ SECRET) >= 1


rng = np.random.default_rng(1)
SECRET = rng.standard_normal(64)
SECRET /= np.linalg.norm(SECRET)
START = 4 * SECRET + rng.standard_normal(64)


@pytest.mark.parametrize("share", study.WALKS.values())
def test_a_walker_who_may_be_rejected_often_finds_the_smallest_change(share):
    reached = study.walk(half_space, START, share, seed=0)
    assert reached[0] == (0, pytest.approx(np.linalg.norm(START)))
    assert reached[-1][0] <= max(study.REJECTIONS)
    assert 1 <= reached[-1][1] < 1.3


def test_rejections_are_what_a_walker_pays():
    reached = study.walk(half_space, START, 0.5, seed=0)
    assert min(norm for spent, norm in reached if spent <= 20) > 1.5
    service = study.CountingService(lambda change: False, most=3)
    assert not service(START)
    assert not service(START)
    with pytest.raises(study.RejectedTooOftenError):
        service(START)
    assert (service.asked, service.rejected) == (3, 3)

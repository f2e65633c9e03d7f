from __future__ import annotations

import pytest

from coverlock_bench.ledger import Ledger, Session
from coverlock_sdk import CoverLockError
from coverlock_sdk.testing import natural_pictures
from experiments.forgeries import (
    FORGERIES,
    FORGERIES_POOLED,
    Cast,
    Scale,
    forgeries,
    pooled_rows,
)


def test_parts_share_no_picture():
    pictures = natural_pictures(12, (32, 32))
    cast = Cast.of(pictures, seed=0)
    dealt = [p.tobytes() for part in (cast.sources, cast.targets, cast.naturals) for p in part]
    assert len(set(dealt)) == len(dealt)
    assert len(cast.sources) == len(cast.targets)


def test_transplants_pass_without_the_lock_and_not_with_it(additive, tmp_path):
    pictures = natural_pictures(16, (64, 64))
    cells = {
        defense: forgeries(additive, defense, "gt", pictures, Scale(4, 3), 0, Session())
        for defense in ("none", "coverlock")
    }
    assert cells["none"]["hard"]["rate"] == 1
    assert cells["coverlock"]["hard"]["successes"] == 0
    assert cells["none"]["hard"]["clusters"][0] == 4
    figures = {"additive": {"photos": {"gt": cells}}}
    assert "12 of 12" in FORGERIES.markdown(figures)
    assert "0.243 %" in FORGERIES_POOLED.markdown(figures)


def test_beside_our_cells_stand_the_papers_of_the_same_systems_and_photos():
    rate = {"successes": 0, "trials": 9, "worth": 9.0}
    cells = {"gt": {"coverlock": {"hard": rate, "soft": rate}}}
    figures = {"cin": {"coco": cells}, "mbrs-256": {"coco": cells}}
    [line] = FORGERIES_POOLED.markdown(figures).splitlines()[2:]
    assert "| cin, mbrs-256 | coco | 0 of 18 |" in line
    assert line.endswith("| 0.055 % | 0.243 % |")


def test_fewer_residuals_are_stolen_where_time_is_short():
    assert Scale(4, 3).at_most(2) == Scale(2, 3)
    assert Scale(4, 3).at_most(9) == Scale(4, 3).at_most(None) == Scale(4, 3)


def test_fewer_pictures_are_robbed_once_each_and_their_residuals_pasted_more_often():
    assert Scale(6, 4).over(sources=9, targets=9) == Scale(6, 4)
    assert Scale(6, 4).over(sources=5, targets=9) == Scale(5, 5)
    assert Scale(6, 4).over(sources=3, targets=7) == Scale(3, 7)


def test_no_source_is_robbed_twice(additive):
    pictures = natural_pictures(12, (64, 64))
    cell = forgeries(additive, "none", "gt", pictures, Scale(8, 2), 0, Session())
    assert cell["hard"]["clusters"] == [4, 4]
    assert cell["hard"]["trials"] == 16
    assert cell["most_matches"] > 0.9 * additive.bits


def test_a_shorter_run_is_the_beginning_of_a_longer_one(additive, tmp_path):
    pictures = natural_pictures(12, (64, 64))
    given = additive, "none", "gt", pictures, Scale(8, 2), 0
    whole = forgeries(*given, Session(Ledger(tmp_path / "kept.sqlite")))
    short = forgeries(*given, Session(), groups=3)
    assert short["hard"]["trials"] == 12
    late = Session(Ledger(tmp_path / "kept.sqlite"), deadline=0.0)
    assert forgeries(*given, late, groups=3) == short
    assert forgeries(*given, late) == whole


def test_systems_on_the_same_photos_are_worth_no_more_than_one():
    def cell(worth):
        rate = {"successes": 0, "trials": 9, "worth": worth}
        return {"gt": {"coverlock": {"hard": rate, "soft": rate}}}

    figures = {"cin": {"coco": cell(5.0)}, "mbrs": {"coco": cell(7.0), "imagenet": cell(2.0)}}
    [row] = pooled_rows(figures)
    assert row["soft"]["trials"] == 27
    assert row["soft"]["worth"] == 9.0


def test_a_run_goes_on_where_it_stopped(additive, tmp_path):
    pictures = natural_pictures(12, (64, 64))
    kept = Session(Ledger(tmp_path / "kept.sqlite"))
    first = forgeries(additive, "none", "gt", pictures, Scale(2, 2), 0, kept)
    late = Session(Ledger(tmp_path / "kept.sqlite"), deadline=0.0)
    assert forgeries(additive, "none", "gt", pictures, Scale(2, 2), 0, late) == first


def test_too_few_pictures_for_an_attack_are_explained(additive):
    with pytest.raises(CoverLockError, match="needs 100 marked pictures, but only 4 of 12"):
        forgeries(
            additive, "none", "averaging", natural_pictures(12, (64, 64)), Scale(1, 1), 0, Session()
        )

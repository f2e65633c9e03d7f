"""A service under load and under attack."""

import os
import shutil
from pathlib import Path

import pytest

from coverlock_bench.photos import jpeg_file
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.testing import natural_pictures
from experiments import siege
from experiments.service import load_test
from tests.toy_bundle import write_toy_bundle

PICTURES = [jpeg_file(picture) for picture in natural_pictures(16, (128, 128), seed=2)]


@pytest.fixture
def bundle(tmp_path):
    return write_toy_bundle(tmp_path / "bundle").path


@pytest.mark.slow
def test_ten_thousand_requests_leave_the_memory_as_it_was(bundle):
    options = ("--runtime", "cpu", "--limit", "in_flight=16")
    figures = load_test(bundle, PICTURES, 10_000, 8, options)
    assert figures["steady"]["statuses"] == {"200": 10_000}
    memory = figures["memory_mb"]
    assert len(memory["along"]) == 10
    assert max(memory["after"], *memory["along"].values()) < memory["before"] + 10
    overload = figures["overload"]["statuses"]
    assert set(overload) == {"200", "503"}  # and none was lost
    assert sum(overload.values()) == 320


def test_memory_is_looked_at_along_the_way(bundle):
    figures = load_test(bundle, PICTURES, 25, 1, ("--runtime", "cpu"))
    assert figures["steady"]["statuses"] == {"200": 25}
    memory = figures["memory_mb"]
    assert list(memory["along"]) == [2, 5, 7, 10, 12, 15, 17, 20, 22, 25]
    for megabytes in (memory["before"], *memory["along"].values(), memory["after"]):
        assert 10 < megabytes < 10_000


@pytest.mark.slow
def test_every_attack_is_tried_and_the_service_survives(bundle):
    proxy = Path(__file__).parents[2] / "examples" / "deploy" / "nginx.conf"
    has_nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    front = proxy if has_nginx else None
    figures = siege.besiege(bundle, PICTURES[0], 2, ("--runtime", "cpu"), front)
    assert figures.pop("end") == {"alive": True}
    assert set(figures) == {"peace", *siege.ATTACKS}
    for figure in figures.values():
        assert figure["asked"] == 2 * siege.ASKS_A_SECOND
        assert sum(figure["statuses"].values()) == figure["asked"]
        assert 0 <= figure["in_time"] <= 1


def test_a_siege_fails_with_a_sentence_if_answers_are_late():
    good, bad = {"in_time": 0.95}, {"in_time": 0.5}
    siege.require_answers({"peace": good, "PostScript": good, "end": {"alive": True}})
    with pytest.raises(CoverLockError, match=r"only 50% .* within 2 s \(PostScript\)"):
        siege.require_answers({"peace": good, "PostScript": bad, "end": {"alive": True}})
    with pytest.raises(CoverLockError, match="did not survive"):
        siege.require_answers({"peace": good, "end": {"alive": False}})

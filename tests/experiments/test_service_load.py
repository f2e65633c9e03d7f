import pytest

from coverlock_bench.photos import jpeg_file
from coverlock_sdk.testing import natural_pictures
from experiments.service import load_test
from tests.toy_bundle import write_toy_bundle


@pytest.mark.slow
def test_ten_thousand_requests_leave_the_memory_as_it_was(tmp_path):
    bundle = write_toy_bundle(tmp_path / "bundle")
    pictures = [jpeg_file(picture) for picture in natural_pictures(16, (128, 128), seed=2)]
    options = ("--runtime", "cpu", "--limit", "in_flight=16")
    figures = load_test(bundle.path, pictures, 10_000, 8, options)
    assert figures["steady"]["statuses"] == {"200": 10_000}
    memory = figures["memory_mb"]
    assert len(memory["along"]) == 10
    assert max(memory["after"], *memory["along"].values()) < memory["before"] + 10
    overload = figures["overload"]["statuses"]
    assert set(overload) == {"200", "503"}  # and none was lost
    assert sum(overload.values()) == 320


def test_memory_is_looked_at_along_the_way(tmp_path):
    bundle = write_toy_bundle(tmp_path / "bundle")
    pictures = [jpeg_file(picture) for picture in natural_pictures(4, (128, 128), seed=2)]
    figures = load_test(bundle.path, pictures, 25, 1, ("--runtime", "cpu"))
    assert figures["steady"]["statuses"] == {"200": 25}
    memory = figures["memory_mb"]
    assert list(memory["along"]) == [2, 5, 7, 10, 12, 15, 17, 20, 22, 25]
    for megabytes in (memory["before"], *memory["along"].values(), memory["after"]):
        assert 10 < megabytes < 10_000

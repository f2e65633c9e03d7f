import pytest

from coverlock_bench.deployment.latency.subjects import _jpeg
from coverlock_bench.deployment.service import load_test
from coverlock_sdk.testing import natural_pictures
from tests.toy_bundle import write_toy_bundle


@pytest.mark.slow
def test_ten_thousand_requests_leave_the_memory_as_it_was(tmp_path):
    bundle = write_toy_bundle(tmp_path / "bundle")
    pictures = [_jpeg(picture) for picture in natural_pictures(16, (128, 128), seed=2)]
    options = ("--runtime", "cpu", "--limit", "in_flight=16")
    figures = load_test(bundle.path, pictures, 10_000, 8, options)
    assert figures["steady"]["statuses"] == {"200": 10_000}
    memory = figures["memory_mb"]
    assert len(memory["along"]) == 10
    assert max(memory["after"], *memory["along"].values()) < memory["before"] + 10
    overload = figures["overload"]["statuses"]
    assert set(overload) == {"200", "503"}  # and none was lost
    assert sum(overload.values()) == 320

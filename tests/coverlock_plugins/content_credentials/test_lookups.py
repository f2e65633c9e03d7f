import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coverlock_plugins.content_credentials.lookups import Shelf, distance, most_distance
from coverlock_plugins.content_credentials.repository import Look, ManifestRepository


def some(size: int, most: int):
    return st.lists(st.binary(min_size=size, max_size=size), min_size=2, max_size=most)


@given(st.sampled_from([32, 128, 13]).flatmap(lambda size: some(size, 20)), st.integers(0, 1024))
def test_the_nearest_are_those_within_reach_in_order(fingerprints, dimensions):
    wanted, *stored = fingerprints
    looks = [Look(n, "w", "h", None, value, b"abcd") for n, value in enumerate(stored)]
    found = Shelf.of(looks[:1])
    for look in looks[1:]:
        found = found + Shelf.of([look])
    expected = sorted((distance(value, wanted), n) for n, value in enumerate(stored))
    near = [n for bits, n in expected if bits <= most_distance(dimensions)]
    assert found.nearest(wanted, dimensions) == near


def test_the_bearer_of_a_payload_is_found_despite_errors_and_not_by_chance():
    rng = np.random.default_rng(0)
    payloads = rng.integers(0, 2, (500, 64), dtype=np.uint8)
    looks = [
        Look(n, "w", "h", None, bytes(32), np.packbits(bits).tobytes())
        for n, bits in enumerate(payloads)
    ]
    shelf = Shelf.of(looks)
    damaged = payloads[123].copy()
    damaged[:6] ^= 1
    assert shelf.bearer(damaged, 1e-6) == 123
    assert shelf.bearer(rng.integers(0, 2, 64, dtype=np.uint8), 1e-6) is None


@pytest.mark.skipif("os.name != 'posix'")
def test_what_the_repository_remembers_is_private(tmp_path):
    ManifestRepository(tmp_path, create=True)
    assert (tmp_path / "repository.db").stat().st_mode & 0o777 == 0o600

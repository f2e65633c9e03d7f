import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coverlock_sdk import Key
from coverlock_sdk.locking.secret_rotations import SALTS, LongCode, code_map

BANDS = (192, 320, 512)
KEY = Key(b"0123456789abcdef0123456789abcdef", id="golden")


def test_golden_values():
    """What a key determines must never change, on any platform: marked pictures depend on it."""
    code = ((np.arange(1024, dtype=np.float32) % 17) - 8)[None]
    own, public = code_map(KEY, "id/vendor-42", 64, BANDS), code_map(None, "", 64, BANDS)
    golden = {
        "ffc806d634498dc648535fda20d54e03": own.seen(code)[0, :2] > 0,
        "03066108812003d4": own.pads[0],
        "1f93bfa1ec3c95ec": public.seen(code)[0, 0] > 0,
    }
    for expected, bits in golden.items():
        assert np.packbits(bits).tobytes().hex() == expected
    assert (public.salts, public.pads.any()) == (1, False)
    another = code_map(None, "another", 64, BANDS)
    np.testing.assert_array_equal(public.directions(0), another.directions(0))


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(8, 256), st.sampled_from([BANDS, (256,), (100, 7)]))
def test_what_is_seen_is_a_product_with_directions(seed, bits, bands):
    rng = np.random.default_rng(seed)
    bits = min(bits, len(bands) * min(bands))
    one = code_map(Key(rng.bytes(32), id="k"), "id/x", bits, bands)
    code = rng.standard_normal((2, sum(bands))).astype(np.float32)
    seen = one.seen(code)
    assert seen.shape == (2, one.salts, bits)
    for salt in {0, one.salts - 1}:
        np.testing.assert_allclose(code @ one.directions(salt), seen[:, salt], atol=1e-4)


def test_every_message_and_salt_has_directions_and_pads_of_its_own():
    one, other = (code_map(KEY, f"id/{name}", 64, BANDS) for name in "ab")
    assert one.salts == SALTS
    pairs = [(one.directions(0), other.directions(0)), (one.directions(0), one.directions(1))]
    for a, b in pairs:
        cosines = (
            np.abs((a * b).sum(axis=0)) / np.linalg.norm(a, axis=0) / np.linalg.norm(b, axis=0)
        )
        assert cosines.max() < 0.35
    assert (one.pads[0] != other.pads[0]).mean() == pytest.approx(0.5, abs=0.25)
    assert len({pad.tobytes() for pad in one.pads}) == SALTS


def test_stabler_salts_cost_fewer_tries():
    one = code_map(KEY, "id/x", 64, BANDS)
    seen = one.seen(np.random.default_rng(0).standard_normal((1, 1024)).astype(np.float32))[0]
    tries = one.tries(seen)
    assert int(np.argmin(tries)) == one.stablest(seen)
    assert (1 / tries).sum() == pytest.approx(1)


def test_long_codes_measure_how_alike_pictures_are():
    long = LongCode.of(KEY, BANDS)
    rng = np.random.default_rng(0)
    code = rng.standard_normal((1, 1024)).astype(np.float32)
    near = 0.95 * code + np.sqrt(1 - 0.95**2) * rng.standard_normal((1, 1024)).astype(np.float32)
    [[low, middle, high]] = long.likeness(near, long.bits(code))
    for share in (low, middle, high):
        assert share == pytest.approx(1 - np.arccos(0.95) / np.pi, abs=0.06)
    numbers = code[:, :192] @ long.directions[0]
    np.testing.assert_array_equal(numbers[0] > 0, long.bits(code)[0, :256] > 0)

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coverlock_sdk import Calibration, Key
from coverlock_sdk.locking.judging import Judge
from coverlock_sdk.locking.keyed_codes import (
    MANY_SALTS,
    SHORTLIST,
    TURNS,
    PlainMap,
    SaltedMap,
    salt_count,
)
from coverlock_sdk.locking.keys import Keyring
from coverlock_sdk.locking.lock_format import LockFormat

SECRET = bytes(range(32))
GROUPS_OF_SALT_7 = [233, 241, 252, 250, 251, 240, 232, 246]
PAD_OF_SALT_7 = "e1e5f0c2f03ee02a"
FIRST_ROTATED = [1.8746910095214844, 0.057041168212890625, 0.3243865966796875, -0.11569976806640625]
BITS_OF_SALT_7 = "8b1d3a5b508289d1"
LENGTHS = (30, 32, 64, 100, 256)


def logits(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 256)).astype(np.float32)


def salted(bits: int = 64, context: str = "id/alice", salts: int = 256) -> SaltedMap:
    return SaltedMap.of(Key(SECRET, id="k"), context, bits, salts)


def test_golden_values_are_those_of_every_platform() -> None:
    code_map, values = salted(), (np.arange(256, dtype=np.float32) - 100)[None] / 64
    assert code_map.groups[:, 7].tolist() == GROUPS_OF_SALT_7
    assert code_map.pads[:, 7].tobytes().hex() == PAD_OF_SALT_7
    seen = code_map.seen(values)[0]
    assert seen[:4].tolist() == FIRST_ROTATED
    bits = (code_map.selected(values, 7) > 0)[0]
    assert np.packbits(bits).tobytes().hex() == BITS_OF_SALT_7


def test_the_rotation_is_orthogonal() -> None:
    turns = salted().seen(np.eye(256, dtype=np.float32)).reshape(256, TURNS, 256)
    for rotation in turns.transpose(1, 0, 2):
        np.testing.assert_allclose(rotation @ rotation.T, np.eye(256), atol=1e-6)
        assert np.abs(rotation).max() < 0.5  # no logit goes through unmixed
    one, two = turns[:, 0], turns[:, 1]
    assert np.abs(one.T @ two).max() < 0.5  # nor do two turns share a direction


def test_a_salt_selects_from_its_own_turn() -> None:
    code_map, z = salted(), logits(3)
    seen = code_map.seen(z)
    for salt in (0, 5, 200):
        places = code_map.places(salt)
        assert set(places // 256) == {salt % TURNS}
        np.testing.assert_array_equal(code_map.selected(z, salt), seen[:, places])


def test_many_salts_are_searched_by_tables_with_the_same_answer() -> None:
    code_map, rng = salted(salts=2 * MANY_SALTS), np.random.default_rng(0)
    payload, seen = rng.uniform(-1, 1, 64), rng.uniform(-1, 1, TURNS * 256)
    by_hand = [
        float((payload * seen[code_map.places(s)] * (1 - 2.0 * code_map.mask(s))).sum())
        for s in range(code_map.salts)
    ]
    [(best, salt)] = sorted(code_map.search(payload, seen, np.zeros(64, np.uint8)))[-1:]
    assert salt == int(np.argmax(by_hand))
    assert best == pytest.approx(max(by_hand), abs=1e-4)


@pytest.mark.parametrize("other", ["key", "identifier"])
def test_another_key_or_identifier_has_another_rotation_and_other_pads(other: str) -> None:
    key = Key(SECRET[::-1] if other == "key" else SECRET, id="k")
    changed = SaltedMap.of(key, "id/bob" if other == "identifier" else "id/alice", 64, 256)
    z = logits(200)
    agreement = ((salted().seen(z) > 0) == (changed.seen(z) > 0)).mean()
    assert agreement == pytest.approx(0.5, abs=0.02)
    assert np.unpackbits(salted().pads ^ changed.pads).mean() == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("bits", LENGTHS)
def test_selections_of_two_salts_differ_and_repeat_no_logit(bits: int) -> None:
    code_map = salted(bits)
    one, two = (code_map.places(salt) for salt in (3, 4))
    assert len(set(one.tolist())) == bits
    assert one.tolist() != two.tolist()
    assert code_map.mask(3).shape == (bits,)


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from(LENGTHS))
def test_a_search_finds_the_salt_that_agrees_best(seed: int, bits: int) -> None:
    rng = np.random.default_rng(seed)
    code_map, message = salted(bits), rng.integers(0, 2, bits, dtype=np.uint8)
    payload, seen = rng.uniform(-1, 1, bits), rng.uniform(-1, 1, TURNS * 256)
    by_hand = [
        float((payload * seen[code_map.places(s)] * (1 - 2.0 * (message ^ code_map.mask(s)))).sum())
        for s in range(code_map.salts)
    ]
    found = sorted(code_map.search(payload, seen, message), reverse=True)
    assert found[0][1] == int(np.argmax(by_hand))
    assert len(found) == SHORTLIST
    np.testing.assert_allclose(
        [score for score, _ in found], sorted(by_hand)[: -SHORTLIST - 1 : -1], atol=1e-4
    )


def test_the_salt_of_a_picture_is_the_stablest_and_pictures_rarely_share_one() -> None:
    code_map = salted(salts=4096)
    seen = code_map.seen(logits(100))
    salts = [code_map.stablest(row[None]) for row in seen]
    assert len(set(salts)) > 90
    near = [np.abs(row[code_map.places(s)]).min() for row, s in zip(seen, salts, strict=True)]
    assert np.mean(near) > 1.5 * np.mean(np.abs(seen[:, :64]).min(axis=1))


def test_the_stablest_salt_avoids_bits_that_turn_over_in_a_crop() -> None:
    code_map, pictures = salted(), logits(40)
    crops = pictures + 0.5 * logits(40, seed=1)
    errors: dict[str, list[float]] = {"as it is": [], "rehearsed": []}
    for picture, crop in zip(pictures, crops, strict=True):
        both = code_map.seen(np.stack([picture, crop]))
        for name, rows in (("as it is", both[:1]), ("rehearsed", both)):
            kept = both[:, code_map.places(code_map.stablest(rows))] > 0
            errors[name].append((kept[0] != kept[1]).mean())
    assert np.mean(errors["rehearsed"]) < 0.7 * np.mean(errors["as it is"])


def test_a_salt_counts_as_more_tries_the_less_it_was_to_be_expected() -> None:
    code_map = salted()
    picture = code_map.seen(logits(1))[0]
    tries = np.array(code_map.tries(picture, range(code_map.salts)))
    first = code_map.stablest(picture[None])
    assert tries.argmin() == first
    assert 1 < tries[first] < 4 < np.median(tries)
    assert (1 / tries).sum() == pytest.approx(1)  # so that all salts together keep the rate
    blank = np.zeros(TURNS * 256, dtype=np.float32)
    assert code_map.tries(blank, [0, 7]) == pytest.approx([code_map.salts] * 2)


@pytest.mark.parametrize("rule", ["hard", "soft"])
@pytest.mark.parametrize("bits", [32, 64])
def test_p_values_of_unmarked_pictures_keep_their_promise(rule, bits: int) -> None:
    """All salts are tried; the smallest of their p-values, corrected, is not optimistic."""
    judge = Judge(
        LockFormat(bits, Calibration(), Calibration()), Keyring([Key(SECRET, "k")]), 1e-3, rule
    )
    decoded = np.random.default_rng(1).standard_normal((400, bits)).astype(np.float32)
    names = [f"customer {row}" for row in range(400)]
    p_values = np.array([v.p_value for v in judge.verify(decoded, logits(400), names)])
    for level in (0.5, 0.2, 0.05):
        assert (p_values <= level).mean() <= level + 3 * np.sqrt(level * (1 - level) / 400)


def test_more_bits_afford_more_salts_and_few_bits_none() -> None:
    counts = [salt_count(bits) for bits in (16, 30, 48, 64, 100, 256)]
    assert counts == sorted(counts)
    assert counts[0] == 1
    assert counts[-1] == 2**16
    assert counts[1] == 2**8


def test_without_a_key_there_is_one_public_map() -> None:
    plain = PlainMap.of(None, 64)
    assert plain.salts == 1
    assert not plain.mask(0).any()
    np.testing.assert_array_equal(plain.selected(logits(2), 0), logits(2)[:, plain.selection])


@pytest.mark.parametrize("scheme", [1, 2])
def test_what_a_key_determines_is_not_printed(scheme: int) -> None:
    key = Key(SECRET, id="k", scheme=scheme)
    judge = Judge(LockFormat(64, Calibration(), Calibration()), Keyring([key]), 1e-6, "soft")
    shown = repr(judge.terms(np.zeros(64, dtype=np.uint8), key).code_map)
    assert "array" not in shown
    assert "[" not in shown

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from coverlock_sdk import Calibration, Key, wrap
from coverlock_sdk.errors import MessageError
from coverlock_sdk.locking.judging import Judge
from coverlock_sdk.locking.keys import SERIAL_MAPS, Keyring
from coverlock_sdk.locking.lock_format import LockFormat
from coverlock_sdk.locking.serials import Serial, SerialRegistry


@pytest.fixture
def registry(tmp_path) -> SerialRegistry:
    return SerialRegistry(tmp_path / "serials.db")


def test_serials_count_up_for_each_identifier(registry):
    issued = [registry.issue(name) for name in ("order-1", "order-1", "order-2")]
    assert issued == ["order-1/000001", "order-1/000002", "order-2/000001"]
    assert registry.serials("order-1") == issued[:2]
    assert registry.serials() == issued
    assert all(isinstance(serial, Serial) for serial in registry.serials())


def test_random_serials_cannot_be_guessed_from_others(registry):
    one, other = (registry.issue("order-1", random=True) for _ in range(2))
    assert one != other
    assert len(one) == len("order-1/") + 16


def test_concurrent_writers_never_get_the_same_serial(registry):
    with ThreadPoolExecutor(8) as pool:
        issued = list(pool.map(lambda _: SerialRegistry(registry.path).issue("order"), range(64)))
    assert len(set(issued)) == 64
    assert sorted(issued)[-1] == "order/000064"


def test_rows_tell_what_a_serial_was_for(registry):
    registry.issue("order-1", picture="cat.jpg")
    [row] = registry.rows()
    assert (row["serial"], row["picture"]) == ("order-1/000001", "cat.jpg")


def test_a_registry_that_cannot_be_used_is_reported(tmp_path):
    (tmp_path / "broken.db").write_bytes(b"not a database" * 100)
    with pytest.raises(MessageError, match=r"broken\.db cannot be used"):
        SerialRegistry(tmp_path / "broken.db")


@pytest.mark.parametrize("scheme", [1, 2, None])
def test_each_picture_carries_a_serial_of_its_own(additive, photos, registry, scheme):
    key = None if scheme is None else Key(bytes(range(32)), id="k", scheme=scheme)
    locked = wrap(additive, key=key)
    serials = [registry.issue("order-4711") for _ in photos[:4]]
    marked = locked.embed(list(photos[:4]), serials)
    assert all(locked.verify(marked, serials))
    assert not any(locked.verify(marked, serials[::-1]))
    answers = locked.identify(marked, registry.serials("order-4711"))
    assert [answer.label for answer in answers] == serials


def test_a_serial_is_not_the_identifier_of_the_same_name_under_a_salted_key(additive, photos, key):
    locked = wrap(additive, key=key)
    marked = locked.embed(photos[0], Serial("order/1"))
    assert locked.verify(marked, Serial("order/1"))
    assert not locked.verify(marked, "order/1")


def test_a_book_is_of_one_kind(additive, key):
    with pytest.raises(MessageError, match="identifiers or serials"):
        wrap(additive, key=key).book([Serial("a/1"), "b"])


def test_serials_are_spread_over_many_maps(key):
    judge = Judge(LockFormat(64, Calibration(), Calibration()), Keyring([key]), 1e-6, "soft")
    logits = np.random.default_rng(0).standard_normal((1, 256)).astype(np.float32)
    codes = {
        judge.terms(Serial(f"order/{n}"), key).code_map.seen(logits).tobytes() for n in range(400)
    }
    assert len(codes) > SERIAL_MAPS / 2
    book = judge.book([Serial(f"order/{n}") for n in range(400)])
    rows = np.concatenate(list(book.by_map(key).values()))
    assert sorted(rows.tolist()) == list(range(400))


def test_a_large_book_of_serials_is_searched_at_once(additive, photos, key):
    locked = wrap(additive, key=key)
    serials = [Serial(f"order/{n:06}") for n in range(20_000)]
    book = locked.book(serials)
    assert locked.identify(locked.embed(photos[0], serials[77]), book).label == serials[77]
    assert np.isclose(locked.identify(photos[1], book).verdict.p_value, 1, atol=1)

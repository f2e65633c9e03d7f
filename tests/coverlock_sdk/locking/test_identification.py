import time

import numpy as np
import pytest

from coverlock_sdk import CoverLock, Key, Keyring, wrap
from coverlock_sdk.errors import MessageError
from coverlock_sdk.images.conversion import Given
from coverlock_sdk.locking.identification import MessageBook
from coverlock_sdk.locking.picture_verifier import Looks
from coverlock_sdk.locking.registration import Search
from coverlock_sdk.locking.statistics import soft_weights
from coverlock_sdk.testing import natural_pictures
from tests.conftest import AdditiveMark


@pytest.fixture(scope="module")
def locked():
    return wrap(AdditiveMark(bits=96))


@pytest.mark.parametrize("rule", ["hard", "soft"])
def test_the_right_identifier_is_found_among_many(photos, rule):
    locked = CoverLock(rule=rule).protect(AdditiveMark(bits=96))
    identifiers = [f"customer-{i}" for i in range(2000)]
    marked = locked.embed(photos[0], "customer-1234")
    answer = locked.identify(marked, identifiers)
    assert answer
    assert answer.label == "customer-1234"
    single = locked.verify(marked, "customer-1234")
    assert answer.verdict.p_value == pytest.approx(2000 * single.p_value, rel=1e-3)


def test_messages_may_be_an_array_or_a_mapping(locked, photos):
    messages = np.random.default_rng(0).integers(0, 2, (50, 96), dtype=np.uint8)
    marked = locked.embed(photos[0], messages[17])
    assert locked.identify(marked, messages).label == 17
    named = {f"m{i}": row for i, row in enumerate(messages)}
    assert locked.identify(marked, named).label == "m17"
    answers = locked.identify([marked, photos[1]], named)
    assert [answer.label for answer in answers] == ["m17", None]


def test_identifiers_are_found_under_every_active_key(photos):
    old, new = Key(b"o" * 32, id="old"), Key(b"n" * 32, id="new")
    marked = wrap(AdditiveMark(bits=96), key=old).embed(photos[0], "b")
    answer = wrap(AdditiveMark(bits=96), key=Keyring([new, old])).identify(marked, ["a", "b", "c"])
    assert answer.label == "b"
    assert answer.verdict.key_id == "old"


def test_too_short_a_message_for_so_many_candidates_is_explained(photos):
    locked = wrap(AdditiveMark(bits=32))
    book = MessageBook(range(10**6), [np.zeros(32, np.uint8)] * 10**6, 32)
    with pytest.raises(MessageError, match="32 bits cannot reach .* among 1,000,000 candidates"):
        locked.identify(photos[0], book)
    with pytest.raises(MessageError, match="no messages"):
        locked.identify(photos[0], [])
    with pytest.raises(MessageError, match="96 bits, 32 are needed"):
        locked.identify(photos[0], MessageBook.of(np.zeros((1, 96)), 96))


def test_many_messages_are_searched_in_under_a_second():
    rng = np.random.default_rng(0)
    messages = rng.integers(0, 2, (10**5, 256), dtype=np.uint8)
    read = messages[65_432] > 0
    read[:40] ^= True  # 16 % of the bits are misread
    weights = soft_weights(rng.uniform(0.6, 0.999, 256))
    start = time.process_time()
    assert MessageBook.of(messages, 256).nearest(read, weights) == 65_432
    assert time.process_time() - start < 1.0


def test_a_registry_finds_a_crop_among_all_pictures(additive, key, tmp_path):
    pictures = natural_pictures(6, (256, 256), seed=11)
    locked = wrap(additive, key=key, registry=tmp_path / "pictures.db")
    marked = [locked.embed(picture, f"order-{n}") for n, picture in enumerate(pictures[:5])]
    book = [f"order-{n}" for n in range(5)]
    for number, picture in enumerate(marked):
        assert locked.identify(picture, book).label == f"order-{number}"
    found = locked.identify(marked[3][4:244, 10:250], book)
    assert found.label == "order-3"
    assert found.verdict.frame.side == pytest.approx(240 / 256, abs=0.01)
    assert not locked.identify(pictures[5], book)
    assert not locked.identify(marked[3], ["order-0", "order-1"])


def test_with_a_registry_the_same_is_done_whatever_is_found(additive, key, tmp_path, monkeypatch):
    """/identify took 44 ms for what the registry has, and 120 ms for anything else."""
    pictures = natural_pictures(4, (256, 256), seed=11)
    locked = wrap(additive, key=key, registry=tmp_path / "pictures.db")
    marked = [locked.embed(picture, f"order-{n}") for n, picture in enumerate(pictures[:3])]
    book = locked.book([f"order-{n}" for n in range(2)])
    blank = np.full_like(marked[0], 120)
    searched = []

    def counted(search):
        searched.append(1)
        return best(search)

    best = Search.best
    monkeypatch.setattr(Search, "best", counted)
    work = set()
    for shown in (marked[0], marked[1][4:244, 10:250], marked[2], pictures[3], blank):
        seen, looks = locked.logits(shown), Looks(locked, Given(shown))
        [quick] = locked.lock.identify(*seen, book, looks)
        searched.clear()
        [thorough] = locked.lock.identify(*seen, book, looks, thorough=True)
        assert thorough == quick
        work.add(len(searched))
    assert work == {1}

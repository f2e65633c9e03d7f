from __future__ import annotations

import time

import numpy as np
import pytest

from coverlock_sdk import Framing, Key, Keyring, MessageBook, wrap
from coverlock_sdk.errors import MessageError
from coverlock_sdk.locking.statistics import soft_weights
from tests.conftest import AdditiveMark


@pytest.fixture(scope="module")
def locked():
    return wrap(AdditiveMark(bits=96))


@pytest.mark.parametrize("rule", ["hard", "soft"])
def test_the_right_identifier_is_found_among_many(photos, rule):
    locked = wrap(AdditiveMark(bits=96), rule=rule)
    identifiers = [f"customer-{i}" for i in range(2000)]
    marked = locked.embed(photos[0], "customer-1234")
    answer = locked.identify(marked, identifiers)
    assert answer
    assert answer.label == "customer-1234"
    single = locked.verify(marked, "customer-1234")
    assert answer.verdict.p_value == pytest.approx(2000 * single.p_value, rel=1e-3)


def test_an_unmarked_picture_is_nobodys(locked, photos):
    answer = locked.identify(photos[0], [f"customer-{i}" for i in range(100)])
    assert not answer
    assert answer.label is None


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


def test_a_book_of_other_keys_is_refused(photos):
    old, new = Key(b"o" * 32, id="old", scheme=1), Key(b"n" * 32, id="new", scheme=1)
    book = wrap(AdditiveMark(bits=96), key=old).book(["a", "b"])
    for key in (None, new, [new, old]):
        with pytest.raises(MessageError, match="codewords of other keys"):
            wrap(AdditiveMark(bits=96), key=key).identify(photos[0], book)


def test_too_short_a_message_for_so_many_candidates_is_explained(photos):
    locked = wrap(AdditiveMark(bits=32))
    book = MessageBook(range(10**6), {None: np.zeros((4, 10**6), np.uint8)}, 32)
    with pytest.raises(MessageError, match="32 bits cannot reach .* among 1,000,000 candidates"):
        locked.identify(photos[0], book)
    with pytest.raises(MessageError, match="no registered message"):
        locked.identify(photos[0], [])
    with pytest.raises(MessageError, match="96 bits, 32 are needed"):
        locked.identify(photos[0], MessageBook.of_messages(np.zeros((1, 96)), 96))


@pytest.mark.parametrize("soft", [False, True])
def test_a_million_messages_are_searched_in_under_a_second(soft):
    rng = np.random.default_rng(0)
    packed = rng.integers(0, 256, (32, 10**6), dtype=np.uint8)
    book = MessageBook(range(10**6), {None: packed}, 256)
    decoded = book.message(765_432, None).copy()
    decoded[:40] ^= 1  # 16 % of the bits are misread
    weights = soft_weights(rng.uniform(0.6, 0.999, 256)) if soft else None
    start = time.process_time()
    assert book.best(decoded, weights, None) == 765_432
    assert time.process_time() - start < 1.0


def test_weighted_search_agrees_with_direct_computation():
    rng = np.random.default_rng(1)
    messages = rng.integers(0, 2, (300, 45), dtype=np.uint8)
    book = MessageBook.of_messages(messages, 45)
    for _ in range(20):
        decoded = rng.integers(0, 2, 45, dtype=np.uint8)
        weights = soft_weights(rng.uniform(0.5, 0.999, 45))
        scores = (messages == decoded) @ weights
        assert scores[book.best(decoded, weights, None)] == scores.max()
        matches = (messages == decoded).sum(axis=1)
        assert matches[book.best(decoded, None, None)] == matches.max()


# Messages that are read


def test_a_framed_payload_is_read_off_the_picture(locked, photos):
    pytest.importorskip("reedsolo")
    framing = Framing(locked.bits, payload_bits=32)
    marked = locked.embed(photos[0], framing.encode(b"\x00CAT"))
    answer = locked.read(marked, framing)
    assert answer
    assert answer.label == int.from_bytes(b"\x00CAT", "big")
    assert not locked.read(photos[1], framing)


def test_as_many_errors_as_promised_are_repaired():
    pytest.importorskip("reedsolo")
    framing = Framing(256, payload_bits=64)
    assert framing.corrects >= 20
    rng = np.random.default_rng(0)
    for _ in range(20):
        number = int(rng.integers(2**63))
        logits = framing.encode(number) * 2.0 - 1
        logits[rng.choice(256, framing.corrects, replace=False)] *= -1
        assert framing.decode(logits) == number


def test_unfitting_payloads_are_refused():
    pytest.importorskip("reedsolo")
    with pytest.raises(MessageError, match="no BCH code fits"):
        Framing(32, payload_bits=31)
    framing = Framing(64, payload_bits=16)
    with pytest.raises(MessageError, match="24 bits, but this framing carries 16"):
        framing.encode(b"abc")
    with pytest.raises(MessageError, match="does not fit into 16 bits"):
        framing.encode(1 << 16)
    with pytest.raises(MessageError, match="do not fit a framing"):
        framing.decode(np.zeros(63))

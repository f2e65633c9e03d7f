from __future__ import annotations

import numpy as np
import pytest

from coverlock_bench.auditing.distinctness import lookalikes
from coverlock_sdk import wrap


@pytest.fixture(scope="module")
def cards(photos):
    """Three pictures of one template, the first of them twice."""
    cards = photos[[0, 0, 0, 0]]
    cards[2, 8:14, 8:40] = 60
    cards[3, 8:16, 8:40] = 120
    return cards


@pytest.mark.parametrize("hash_name", ["nano", "dct"])  # with a crowd, and without
@pytest.mark.parametrize("keyed", [False, True])
def test_own_pictures_that_pass_for_one_another_are_counted(
    additive, cards, photos, key, keyed, hash_name
):
    lock = wrap(additive, hash=hash_name, key=key if keyed else None)
    figures = lookalikes(lock, [*cards, *photos[5:7]])
    assert figures["own_histogram"] == {"none": 2, "1-9": 4, "10-99": 0, "100 or more": 0}
    assert (figures["alike"], figures["pairs"]) == (4, 10)  # a copy is no other picture
    assert "4 of these 6 pictures have lookalikes among themselves: 10 of 30" in figures["sentence"]
    assert ("crowd" in figures["sentence"]) == (hash_name == "nano")


def test_the_count_is_what_verification_says(additive, cards, photos):
    lock = wrap(additive, hash="nano", harden=False)
    pictures = [*cards[1:], *photos[5:7]]
    message = np.zeros(lock.bits, dtype=np.uint8)
    accepted = 0
    for picture in pictures:
        marked = lock.mark(picture, message).picture
        residual = marked.astype(int) - picture
        forged = [
            np.clip(other + residual, 0, 255).astype(np.uint8)
            for other in pictures
            if other is not picture
        ]
        accepted += sum(verdict.accepted for verdict in lock.verify(forged, message))
    assert lookalikes(lock, pictures)["pairs"] == accepted == 6

"""How distinctive a vendor's own pictures are to the lock: how many others would pass for each.

Others are those of the crowd that ships with the hash, and the vendor's own: pictures of one
template may be alike although nothing in the crowd is like them. Of the crowd only codes are known,
so their number is estimated; one's own pictures are judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from coverlock_bench.photos import Picture8
from coverlock_sdk.arrays import Logits
from coverlock_sdk.images.conversion import read
from coverlock_sdk.locking.judging import Terms
from coverlock_sdk.locking.locked_watermark import LockedWatermark

BINS = {"none": 0, "1-9": 1, "10-99": 10, "100 or more": 100}
"""Numbers of lookalikes, and the least of each."""

BY_CHANCE = 0.55
"""Agreement at which no lock accepts, so that nothing need be computed exactly."""

SURE = 20.0
"""The logit of a payload bit that is read without doubt."""


def lookalikes(lock: LockedWatermark, pictures: Sequence[Picture8]) -> dict[str, Any]:
    """How many pictures have how many lookalikes, of which kinds, and how many among themselves."""
    census = lock.binder.census
    assert census is not None, "a lock has a hash"
    terms = lock.judge.terms(np.zeros(lock.bits, dtype=np.uint8), lock.keys[0])
    networks = lock.binder.networks
    logits = np.stack([networks.hashed(networks.views([read(p)]))[0] for p in pictures])
    found, own, content = [], [], [picture.tobytes() for picture in pictures]
    for row, values in enumerate(logits):
        salt = lock.format.stablest_salt(values[None], terms.code_map)
        found.append(census.lookalikes(values, terms, salt))
        others = [other for other, bytes_ in enumerate(content) if bytes_ != content[row]]
        own.append(passing(lock, values, logits[others], terms, salt))
    weak, alike = sum(map(bool, found)), sum(map(bool, own))
    return {
        "crowd": len(census.crowd),
        "pictures": len(found),
        "weak": weak,
        "alike": alike,
        "pairs": sum(own),
        "histogram": _histogram(each.count for each in found),
        "own_histogram": _histogram(own),
        "kinds": dict(Counter(kind for each in found for kind in each.kinds).most_common()),
        "sentence": _sentence(len(census.crowd), weak, own),
    }


def passing(lock: LockedWatermark, own: Logits, others: Logits, terms: Terms, salt: int) -> int:
    """How many pictures (N, 256) would be accepted with the mark of another (256,) in them.

    A perfect forgery brings the payload, which is read without errors.
    """
    layout, judge = lock.format, lock.judge
    payload = layout.payload(terms.message[None], layout.code(own[None], terms.code_map, salt))
    decoded = np.repeat(SURE * (2 * payload.astype(np.float32) - 1), len(others), axis=0)
    readings = layout.readings(decoded, others, terms.code_map, salt, terms.key)
    count = 0
    for row, reading in enumerate(readings):
        if reading.agreement(terms.message, judge.rule) > BY_CHANCE:
            [tries] = layout.tries(others[row : row + 1], terms.code_map, [salt])
            count += judge.judge_own(reading, terms.message, tries).accepted
    return count


def _histogram(counts: Iterable[int]) -> dict[str, int]:
    found = Counter(
        [name for name, least in BINS.items() if count >= least][-1] for count in counts
    )
    return {name: found[name] for name in BINS}


def _sentence(crowd: int, weak: int, own: list[int]) -> str:
    pictures, alike = len(own), sum(map(bool, own))
    if not weak and not alike:
        where = f"among themselves or in a crowd of {crowd:,} pictures of every kind"
        return f"None of these {pictures} pictures has a lookalike {where if crowd else 'here'}."
    sentence = (
        f"{alike} of these {pictures} pictures have lookalikes among themselves: {sum(own):,} of "
        f"{pictures * (pictures - 1):,} perfect forgeries from one to another would be accepted."
    )
    if crowd:
        sentence += f" {weak} have lookalikes in a crowd of {crowd:,} pictures of every kind."
    return f"{sentence} Do not rely on the lock for pictures that have any."

"""How distinctive a vendor's own pictures are to the lock: how many others would pass for each.

Others are those of the crowd that ships with the hash, and the vendor's own: pictures of one
template may be alike although nothing in the crowd is like them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from coverlock_bench.photos import Picture8
from coverlock_sdk.hashing.crowd import Crowd
from coverlock_sdk.images.conversion import read
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.locking.lookalikes import Census

BINS = {"none": 0, "1-9": 1, "10-99": 10, "100 or more": 100}
"""Numbers of lookalikes, and the least of each."""


def lookalikes(lock: LockedWatermark, pictures: Sequence[Picture8]) -> dict[str, Any]:
    """How many pictures have how many lookalikes, of which kinds, and how many among themselves."""
    census = lock.binder.census
    if census is None:
        return {"not_measured": f"the hash '{lock.hash_name}' has no crowd to compare with"}
    terms = lock.judge.terms(np.zeros(lock.bits, dtype=np.uint8), lock.keys[0])
    networks = lock.binder.networks
    logits = np.stack([networks.hashed(networks.views([read(p)]))[0] for p in pictures])
    codes, found, alike = (logits > 0).astype(np.uint8), [], 0
    for row, values in enumerate(logits):
        salt = lock.format.stablest_salt(values[None], terms.code_map)
        found.append(census.lookalikes(values, terms, salt))
        others = np.delete(codes, row, axis=0)
        own = Crowd.of(others, np.zeros(len(others), np.uint8), ("own",), census.crowd.probe)
        alike += bool(Census(own, lock.judge).lookalikes(values, terms, salt))
    weak = sum(map(bool, found))
    return {
        "crowd": len(census.crowd),
        "pictures": len(found),
        "weak": weak,
        "alike": alike,
        "histogram": {name: sum(_bin(each.count) == name for each in found) for name in BINS},
        "kinds": dict(Counter(kind for each in found for kind in each.kinds).most_common()),
        "sentence": _sentence(weak, alike, len(found)),
    }


def _bin(count: int) -> str:
    return [name for name, least in BINS.items() if count >= least][-1]


def _sentence(weak: int, alike: int, pictures: int) -> str:
    if not weak and not alike:
        return f"None of these {pictures} pictures has a lookalike, in the crowd or among them."
    return (
        f"{weak} of these {pictures} pictures have lookalikes in the crowd, and {alike} among "
        "themselves: a forgery between such pictures is accepted behind the lock, so do not rely "
        "on it for them."
    )

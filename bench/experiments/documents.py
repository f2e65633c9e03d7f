"""Where the lock is weak: pages of text look alike to a hash that was trained on photos."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

from coverlock_bench.settings import named_watermark
from coverlock_bench.text_pages import text_page
from coverlock_bench.trial import TRANSPLANT, floats, forge, mark
from coverlock_sdk import CoverLock, load_hash
from coverlock_sdk.locking.verdict import RULES
from coverlock_sdk.plugin_calls import hash_logits


def documents(watermark: str, hashes: list[str], pages: int, fpr: float) -> dict[str, Any]:
    """For each hash: how far codes of pages agree, and how many transplants between pages pass."""
    originals = [text_page(seed) for seed in range(pages)]
    system, figures = named_watermark(watermark), {}
    for name in hashes:
        codes = hash_logits(load_hash(name), floats(originals)) > 0
        pairs = np.triu_indices(pages, 1)
        agreement = (codes[:, None] == codes[None]).mean(axis=2)[pairs]
        passed: dict[str, int] = {}
        for rule in RULES:
            lock = CoverLock(hash=name, fpr=fpr, rule=rule).protect(system)
            marked = [mark(lock, page, "page").picture for page in originals]
            forged = [
                forge(TRANSPLANT, [marked[source]], [originals[source]], [originals[target]])[0]
                for source, target in permutations(range(pages), 2)
            ]
            passed[rule] = sum(map(bool, lock.verify(forged, "page")))
        figures[name] = {
            "agreement_mean": float(agreement.mean()),
            "agreement_max": float(agreement.max()),
            "forgeries": pages * (pages - 1),
            "forgeries_accepted": passed,
        }
    return figures

"""Where the lock is weak: pages of text look alike to a hash that was trained on photos."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from coverlock_bench.photos import Picture8
from coverlock_bench.settings import named_watermark
from coverlock_bench.trial import TRANSPLANT, floats, forge, mark
from coverlock_sdk import CoverLock, load_hash
from coverlock_sdk.locking.verdict import RULES
from coverlock_sdk.plugin_calls import hash_logits

SIDE = 512
LETTERS = "etaoinshrdlucmfwypvbgkjqxz"


def text_page(seed: int) -> Picture8:
    """A page of random words, black on white."""
    rng = np.random.default_rng(seed)
    page = Image.new("RGB", (SIDE, SIDE), "white")
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(16)
    for top in range(24, SIDE - 32, 22):
        words = ["".join(rng.choice(list(LETTERS), rng.integers(2, 9))) for _ in range(9)]
        draw.text((24, top), " ".join(words)[:52], fill="black", font=font)
    return np.asarray(page)


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

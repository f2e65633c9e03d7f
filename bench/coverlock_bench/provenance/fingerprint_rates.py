"""How far the fingerprints of one picture drift, and how near those of two pictures come.

The distance that look-ups allow is chosen from these figures, on photos that training leaves out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.photos import Picture8
from coverlock_bench.provenance.sharing import stripped
from coverlock_sdk import load_hash
from coverlock_sdk.arrays import Bits
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.plugin_calls import picture_logits
from coverlock_sdk.progress import progress

RATES = (1e-2, 1e-3, 1e-4, 1e-5)
DISTORTED = 200
"""Photos of which it is measured how far they drift."""


def fingerprint_rates(hash: str, photos: list[Path], seed: int) -> dict[str, Any]:
    """Distances in bits: between photos, and between a photo and what is left of it."""
    image_hash = load_hash(hash)
    clean = picture_logits(image_hash, list(progress(photos, hash))) > 0
    drift: dict[str, list[int]] = {}
    for row, photo in enumerate(progress(photos[:DISTORTED], f"{hash}, distorted")):
        changed = _changed(read(photo).to_bytes(), np.random.default_rng([seed, row]))
        bits = picture_logits(image_hash, list(changed.values())) > 0
        for name, other in zip(changed, bits, strict=True):
            drift.setdefault(name, []).append(int((other != clean[row]).sum()))
    between = _distances(np.packbits(clean, axis=1))
    return {
        "photos": len(photos),
        "pairs": len(between),
        "distorted": min(DISTORTED, len(photos)),
        "nearest": int(between.min()),
        "distance_at": {f"{rate:g}": _largest_at(between, rate) for rate in RATES},
        "drift": {
            name: {"median": float(np.median(each)), "largest": max(each)}
            for name, each in drift.items()
        },
        "within": {
            name: {
                f"{rate:g}": float(np.mean(np.array(each) <= _largest_at(between, rate)))
                for rate in RATES
            }
            for name, each in drift.items()
        },
    }


def _changed(pixels: Picture8, rng: np.random.Generator) -> dict[str, Any]:
    distorted = {name: distort(pixels, rng) for name, distort in EVALUATION.items()}
    return {"half size, JPEG 80": stripped(pixels), **distorted}


def _distances(packed: Bits) -> Any:
    """Between every two of the fingerprints (N, 32)."""
    rows = [
        np.bitwise_count(packed[row] ^ packed[row + 1 :]).sum(axis=1)
        for row in range(len(packed) - 1)
    ]
    return np.concatenate(rows)


def _largest_at(between: Any, rate: float) -> int:
    """The largest distance that at most this share of all pairs comes within; -1 for none."""
    shares = np.cumsum(np.bincount(between, minlength=257)) / len(between)
    return int(np.searchsorted(shares, rate, side="right")) - 1

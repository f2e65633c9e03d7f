"""How long it takes to find one picture's manifest among many."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.keyed import key_of
from coverlock_sdk import wrap
from coverlock_sdk.images.conversion import read
from coverlock_sdk.locking.serials import Serial
from coverlock_sdk.provenance.fingerprints import fingerprints, tolerance_of
from coverlock_sdk.provenance.lookups import Shelf
from coverlock_sdk.provenance.repository import Look

ALL_AT_MOST = 100_000
"""Serials that are searched one and all for comparison; beyond, making the book takes minutes."""


def lookup_times(
    watermark: str, hash: str, photo: Path, sizes: tuple[int, ...], rounds: int, seed: int
) -> dict[str, Any]:
    """Milliseconds of a look-up by fingerprint, then lock, and of searching all serials instead.

    Fingerprints of the other pictures are random; photos come nearer to each other, which the
    false-positive rate of the fingerprint accounts for.
    """
    lock = wrap(watermark, hash=hash, key=key_of("scheme 2"))
    serial = Serial("bench/1")
    with tempfile.TemporaryDirectory() as folder:
        marked = lock.mark_file(photo, serial, Path(folder) / "marked.png").picture
        decoded, hashed = lock.logits(marked)
    [fingerprint] = fingerprints(hashed)
    rng = np.random.default_rng(seed)
    pixels = read(photo).to_bytes()
    figures: dict[str, Any] = {"networks": _median(lambda: lock.logits([pixels]), rounds)}

    def shortlist(shelf: Shelf) -> None:
        [(_, number)] = shelf.nearest(fingerprint, tolerance_of(hash).distance)
        assert number == 1
        [found] = lock.judge.identify(decoded, hashed, lock.judge.checked_book([serial]))
        assert found

    for size in sizes:
        values = [fingerprint, *map(bytes, rng.integers(0, 256, (size - 1, 32), dtype=np.uint8))]
        shelf = Shelf.of(
            [Look(n, "", "", None, each, bytes(8)) for n, each in enumerate(values, 1)]
        )
        row = {"shortlist": _median(partial(shortlist, shelf), rounds)}
        row |= {"bits": _least_bits(1, lock.fpr), "all_bits": _least_bits(size, lock.fpr)}
        if size <= ALL_AT_MOST:
            start = time.perf_counter()
            book = lock.book([Serial(f"bench/{n}") for n in range(1, size + 1)])
            row["book"] = 1000 * (time.perf_counter() - start)
            row["all"] = _median(partial(lock.judge.identify, decoded, hashed, book), rounds)
        figures[f"{size:,}"] = row
    return figures


def _least_bits(candidates: int, fpr: float) -> int:
    """Bits of payload without which a false-positive rate cannot be reached."""
    return math.ceil(math.log2(candidates / fpr))


def _median(action: Callable[[], Any], rounds: int) -> float:
    taken = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        action()
        taken.append(1000 * (time.perf_counter() - start))
    return float(np.median(taken[1:]))

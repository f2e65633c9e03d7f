"""How often two unmarked photos have codes that pass for one another, by length and photo set.

If a residual transferred perfectly and a decoder never erred, this would be the success rate of
GT@1 behind the lock. It depends on the length of the payload alone, so it can stand beside the
paper's systems of 30, 100 and 256 bits, whichever systems are here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_bench.auditing import paper
from coverlock_bench.intervals import clustered_rate
from coverlock_bench.kept_rows import kept_rows
from coverlock_bench.ledger import digest
from coverlock_bench.tables import Row, Table
from coverlock_sdk import load_hash
from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.picture import stacked_views
from coverlock_sdk.locking.coverlock import DEFAULT_FPR
from coverlock_sdk.locking.keys import bit_selection
from coverlock_sdk.locking.statistics import hard_threshold

LENGTHS = (30, 64, 100, 256)
CACHE = Path("runs/code-pairs")
PAPERS = {30: "cin", 100: "vine", 256: "mbrs"}
"""The paper's system of each length."""


def code_pairs(hash: str, photos: list[Path]) -> dict[str, Any]:
    """Of all pairs of ``photos``, those whose codes pass at each length, with intervals."""
    codes = _codes(hash, photos)
    first, second = np.triu_indices(len(codes), 1)
    figures: dict[str, Any] = {"photos": len(photos), "pairs": len(first)}
    for bits in LENGTHS:
        chosen = np.where(codes[:, bit_selection(None, CODE_BITS, bits)], 1, -1).astype(np.float32)
        matches = ((bits + chosen @ chosen.T) / 2)[first, second]
        passed = matches >= hard_threshold(bits, DEFAULT_FPR)
        figures[str(bits)] = clustered_rate(passed, matches, first, second)
    return figures


def _codes(hash: str, photos: list[Path]) -> npt.NDArray[np.bool_]:
    image_hash = load_hash(hash)

    def code(photo: Path) -> Any:
        return image_hash.logits(stacked_views([read(photo)], image_hash.input_size))[0] > 0

    name = digest(code(photos[0]), [str(photo.resolve()) for photo in photos])
    return kept_rows(CACHE / f"{hash}-{name}.npy", photos, code, f"{hash}, {photos[0].parent.name}")


def _rows(figures: Mapping[str, Any]) -> Iterator[Row]:
    for hash, sets in figures.items():
        for name, row in sets.items():
            yield {"hash": hash, "set": name, **row}


def _cell(bits: int) -> Any:
    system = PAPERS.get(bits)

    def show(row: Row) -> str:
        found = row[str(bits)]
        text = f"{100 * found['rate']:.3f} % [{100 * found['low']:.3f}, {100 * found['high']:.3f}]"
        published = system and paper.asr(system, row["set"], "gt", "coverlock")
        return text if published is None else f"{text} (paper {published:.2f})"

    return show


CODE_PAIRS = Table(
    "Pairs of unmarked photos whose codes pass for one another, hard rule, FPR 1e-6",
    _rows,
    [
        ("hash", "{hash}"),
        ("photos", "{set}"),
        ("pairs", lambda row: f"{row['pairs']:,} of {row['photos']} photos"),
        *(
            (f"{bits} bits" + (f" ({PAPERS[bits].upper()})" if bits in PAPERS else ""), _cell(bits))
            for bits in LENGTHS
        ),
    ],
)

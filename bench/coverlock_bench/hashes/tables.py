"""The table of ``coverlock bench hash``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coverlock_bench.tables import Row, Table, below, nested

SPREAD = "{mean:.3f} ± {std:.3f}"


def _hashes_and_coins(figures: Any) -> Iterator[Row]:
    """Each hash of a report, and fair coins to compare them with in the last row."""
    yield from nested("hash")(figures["hashes"])
    coins = figures["fair_coins"]
    blank = {"parameters": "", "bytes": ""}
    yield {"hash": "fair coins", "different": coins, "similar": coins, **blank, **coins}


HASHES = Table(
    "Hashes",
    _hashes_and_coins,
    (
        ("hash", "{hash}"),
        ("bit error, six distortions", "{bit_error_mean_of_six:%2} %"),
        ("imbalance", "{imbalance:.3f}"),
        ("correlation of bits", "{correlation:.3f}"),
        ("agreement of different pictures", below("different", SPREAD)),
        ("accepted", "{different/accepted/256:%3} %"),
        ("agreement of similar pictures", below("similar", SPREAD)),
        ("accepted", "{similar/accepted/256:%2} %"),
        ("parameters", "{parameters|-:,}"),
        ("bytes", "{bytes|-:,}"),
        ("time / dct", "{times_dct:.1f}"),
    ),
)

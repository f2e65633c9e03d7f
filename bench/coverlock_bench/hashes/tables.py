"""The tables of ``coverlock bench hash``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coverlock_bench.tables import Row, Table, below, nested

SPREAD = "{mean:.3f} ± {std:.3f}"


def _hashes_and_coins(figures: Any) -> Iterator[Row]:
    """Each hash of a report, with fair coins in the last row for comparison."""
    yield from nested("hash")(figures["hashes"])
    coins = figures["fair_coins"]
    yield {"hash": "fair coins", "different": coins, "similar": coins}


HASHES = Table(
    "Hashes",
    _hashes_and_coins,
    (
        ("hash", "{hash}"),
        ("dimensions", "{dimensions|-}"),
        ("bit error, six distortions", "{bit_error_mean_of_six|-:%2} %"),
        ("agreement of different pictures", below("different", SPREAD)),
        ("accepted at 64 bits", "{different/accepted/64:%3} %"),
        ("256", "{different/accepted/256:%3} %"),
        ("agreement of similar pictures", below("similar", SPREAD)),
        ("accepted at 64 bits", "{similar/accepted/64:%2} %"),
        ("256", "{similar/accepted/256:%2} %"),
        ("bytes", "{bytes|-:,}"),
        ("one picture", "{milliseconds|-:.1f} ms"),
    ),
)


def _distortion_rows(figures: Any) -> Iterator[Row]:
    hashes = figures["hashes"]
    for distortion in next(iter(hashes.values()))["bit_error"]:
        errors = {name: row["bit_error"][distortion] for name, row in hashes.items()}
        yield {"distortion": distortion, **errors}


HASH_DISTORTIONS = Table(
    "Bit error of each hash under each distortion",
    _distortion_rows,
    lambda figures: [
        ("distortion", "{distortion}"),
        *((name, f"{{{name}:%2}} %") for name in figures["hashes"]),
    ],
)

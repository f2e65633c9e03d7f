"""The tables of ``coverlock bench hash`` and ``coverlock bench calibration``."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from coverlock_bench.tables import Columns, Row, Table, below, nested, shown

SPREAD = "{mean:.3f} ± {std:.3f}"


def _hashes_and_coins(figures: Any) -> Iterator[Row]:
    """Each hash of a report, and fair coins to compare them with in the last row."""
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


def _length_columns(figures: Any) -> Columns:
    lengths = figures["fair_coins"]["accepted"]
    shares = [(f"L = {length}", f"{{accepted/{length}:%3}} %") for length in lengths]
    return [("hash", "{hash}"), ("pairs", "{pairs:,} {kind}"), *shares]


HASH_LENGTHS = Table(
    "Pairs of pictures that would be accepted for one another, by length of the message",
    lambda figures: [
        {"hash": name, "kind": kind, **row[kind]}
        for name, row in figures["hashes"].items()
        for kind in ("different", "similar")
    ],
    _length_columns,
)


def _by_kind(figures: Any) -> Iterator[Row]:
    """Each kind with the figures of every hash."""
    by_hash = figures["kinds"]
    for kind in next(iter(by_hash.values()), {}):
        row = {name: {**kinds[kind]} for name, kinds in by_hash.items()}
        for of_hash in row.values():
            of_hash["bit_error_mean"] = fmean(of_hash["bit_error"].values())
        yield {"kind": kind, **row}


def _kind_columns(figures: Any) -> Columns:
    columns = [
        ("agreement", "{mean:.3f}"),
        ("accepted at 64 bits", "{accepted/64:%1} %"),
        ("bit error (crop)", "{bit_error_mean:%1} % ({bit_error/crop:%1} %)"),
    ]
    by_hash = [
        (f"{name}: {what}", below(name, cell))
        for name in figures["kinds"]
        for what, cell in columns
    ]
    return [("kind", "{kind}"), *by_hash]


KINDS = Table("Different pictures of one kind, by hash", _by_kind, _kind_columns)


def _variance(row: Row) -> str:
    """The spread of match counts, which nobody can count where there is a key."""
    interval = "{variance_ratio/mean|-:.2f} [{variance_ratio/low:.2f}, {variance_ratio/high:.2f}]"
    return shown(row, interval + " ({variance_ratio/min:.2f}-{variance_ratio/max:.2f})")


def _share(level: str, digits: int) -> str:
    observed = "{observed:%D} % [{low:%D}, {high:%D}]".replace("D", str(digits))
    return below(f"exceedance/{level}", observed)


CALIBRATION = Table(
    "Unmarked photos against fixed messages: how often p is at most a level",
    nested("watermark", "arm"),
    (
        ("watermark", "{watermark}"),
        ("", "{arm}"),
        ("variance / binomial (min-max over messages)", _variance),
        *(
            (f"p <= {level}", _share(level, digits))
            for level, digits in (("0.1", 1), ("0.01", 2), ("0.001", 3), ("1e-05", 4))
        ),
    ),
)

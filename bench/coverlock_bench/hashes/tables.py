"""The tables of ``coverlock bench hash``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import fmean
from typing import Any

from coverlock_bench.hashes.bars import bars_of
from coverlock_bench.tables import Columns, Row, Table, below, nested

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

BARS = Table(
    "Bars of a default hash",
    lambda figures: [
        {"hash": name, **bar.row()} for name in figures["hashes"] for bar in bars_of(name, figures)
    ],
    (
        ("hash", "{hash}"),
        ("bar", "{bar}"),
        ("measured", "{measured}"),
        ("at most", "{allowed}"),
        ("met", "{met}"),
    ),
)


def _by_kind(figures: Any) -> Iterator[Row]:
    """Each kind with the figures of every hash."""
    by_hash = figures["kinds"]
    for kind, first in next(iter(by_hash.values()), {}).items():
        row = {name: {**kinds[kind]} for name, kinds in by_hash.items()}
        for of_hash in row.values():
            of_hash["bit_error_mean"] = fmean(of_hash["bit_error"].values())
        yield {"kind": kind + (" (one template)" if first["one_template"] else ""), **row}


def _kind_columns(figures: Any) -> Columns:
    columns = [
        ("agreement", "{mean:.3f}"),
        ("accepted", "{accepted_64:%1} %"),
        ("bit error (crop)", "{bit_error_mean:%1} % ({bit_error/crop:%1} %)"),
    ]
    by_hash = [
        (f"{name}: {what}", below(name, cell))
        for name in figures["kinds"]
        for what, cell in columns
    ]
    return [("kind", "{kind}"), *by_hash]


KINDS = Table("Different pictures of one kind, by hash", _by_kind, _kind_columns)


VARIANTS = Table(
    "What was tried with keen, on held-out training photos and drawn pictures of training designs",
    lambda figures: figures["variants"],
    (
        ("variant", "{variant}"),
        ("photos", "{photos}"),
        ("bit error", "{error:%2} %"),
        ("80 % crop", "{error_crop:%1} %"),
        ("deviation of agreement", "{pairs_deviation:.4f}"),
        ("pairs at 167 of 256", "{pairs_accepted:%3} %"),
        ("agreement within templates", "{templates_mean:.3f}"),
        ("collisions of 10, key", "{collisions_of_10|-:.1f}"),
    ),
)

COMPUTED = Table(
    "Heads that are computed, on held-out training photos and drawn pictures of training designs",
    lambda figures: figures["variants"],
    (
        ("variant", "{variant}"),
        ("bit error", "{error:%2} %"),
        ("80 % crop", "{error_crop:%1} %"),
        ("deviation of agreement", "{pairs_deviation:.4f}"),
        ("pairs at 167 of 256", "{pairs_accepted:%3} %"),
        ("agreement within templates", "{templates_mean|-:.3f}"),
        ("pairs of one kind that pass", "{kinds_accepted_64:%1} %"),
        ("forged bits that agree, key", "{keyed|-:%1} %"),
        ("without a key", "{keyless|-:%1} %"),
    ),
)

LINEARITY = Table(
    "How linear hashes are",
    lambda figures: nested("hash")(figures["hashes"]),
    (
        ("hash", "{hash}"),
        ("bits of a half-and-half mixture foretold", "{linearity/foretold:%1} %"),
        ("cosine", "{linearity/cosine:.2f}"),
        ("bits of a source, 10 % mixed in", "{linearity/mixed_in/10%:%1} %"),
        ("20 %", "{linearity/mixed_in/20%:%1} %"),
        ("30 %", "{linearity/mixed_in/30%:%1} %"),
    ),
)


def _by_search(figures: Any) -> Iterator[Row]:
    """Each search with the figures of every hash that has gradients."""
    by_hash = figures["collisions"]
    searches = dict.fromkeys(search for row in by_hash.values() for search in row)
    for search in searches:
        yield {"search": search, **{name: row.get(search) for name, row in by_hash.items()}}


def _collided(name: str) -> Callable[[Row], str]:
    """How many of how many, in how many bits they agree, and how visible the change is."""

    def cell(row: Row) -> str:
        found = row[name]
        if found is None:
            return "-"
        return (
            f"{found['accepted']:.1f} of {found['targets']:.0f} "
            f"({100 * found['agreement']:.0f} %, {found['ssim']:.3f})"
        )

    return cell


COLLISIONS = Table(
    "White-box collisions of each hash, by search",
    _by_search,
    lambda figures: [
        ("search", "{search}"),
        *(
            (f"{name}: accepted (bits that agree, SSIM)", _collided(name))
            for name in figures["collisions"]
        ),
    ],
)

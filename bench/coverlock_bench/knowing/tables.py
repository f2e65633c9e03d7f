"""Tables of the attackers who know everything but the key, and of what schemes cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from coverlock_bench.tables import RATE, Row, Table, below, nested

SCHEMES = ("scheme 1", "scheme 2")
WAYS = ("keyless", *SCHEMES)
BAR = 0.01
"""The share of forgeries above which an attack wins."""


BOUNDS = ("told all but the rotations", "sees hardening")
"""Those that are told what no attacker knows."""


def _attacks(figures: Any) -> Iterator[Row]:
    """A row a payload length and attack: what 500 pictures give, and from how many it wins."""
    for bits, schemes in figures["codes"].items():
        for attack in [name for name in schemes["scheme 2"] if name not in BOUNDS]:
            found = {scheme: _summary(schemes[scheme].get(attack, {})) for scheme in SCHEMES}
            yield {"bits": bits, "attack": attack, **found}


def _summary(counts: dict[str, Any]) -> dict[str, Any]:
    if not counts:
        return {}
    name = "500" if "500" in counts else list(counts)[-1]
    won = [count for count, row in counts.items() if row["rate"] > BAR]
    wins = won[0] if won else f"not from {list(counts)[-1]}"
    return {**counts[name], "wins": wins, "of": "" if name == "500" else f" ({name})"}


KEY_ATTACKS = Table(
    "Attacks on keys",
    _attacks,
    (
        ("payload", "{bits} bits"),
        ("attack", "{attack}"),
        *(
            column
            for scheme in SCHEMES
            for column in (
                (f"{scheme}: forged from 500", below(scheme, RATE + "{of}").replace("s}", "s|-}")),
                ("wins from", below(scheme, "{wins|-}")),
            )
        ),
    ),
)


def _bounds(figures: Any) -> Iterator[Row]:
    for bits, schemes in figures["codes"].items():
        for bound in BOUNDS:
            for count, row in schemes["scheme 2"][bound].items():
                one = schemes["one rotation"][bound][count]
                yield {"bits": bits, "bound": bound, "released": count, "turns": row, "one": one}


KEY_BOUNDS = Table(
    "Bounds on attacks on keys",
    _bounds,
    (
        ("payload", "{bits} bits"),
        ("is told", "{bound}"),
        ("released", "{released}"),
        ("one rotation", below("one", RATE)),
        ("sixteen, as it is", below("turns", RATE)),
    ),
)


def _pictures(figures: Any) -> Iterator[Row]:
    for watermark, schemes in figures.items():
        for attack in schemes["scheme 2"]:
            cells = {s: _from(schemes[s].get(attack, {})) for s in SCHEMES}
            yield {"watermark": watermark, "attack": attack, **cells}


def _from(counts: dict[str, Any]) -> dict[str, Any]:
    """The row with the most released pictures, which are named."""
    return {**list(counts.values())[-1], "released": list(counts)[-1]} if counts else {}


END_TO_END = Table(
    "Forgeries of real pictures",
    _pictures,
    (
        ("watermark", "{watermark}"),
        ("attack", "{attack}"),
        *(
            (s, below(s, RATE + " from {released}, {psnr:.1f} dB").replace("s}", "s|-}"))
            for s in SCHEMES
        ),
    ),
)

QUERIES = Table(
    "Forgeries with the help of a service that answers",
    lambda figures: nested("bits", "scheme", "answer")(figures["queries"]),
    (
        ("payload", "{bits} bits"),
        ("scheme", "{scheme}"),
        ("service shows", "{answer}"),
        ("forged", RATE),
        ("queries (median)", "{queries:.0f}"),
        ("budget", "{budget}"),
    ),
)


def _genuine(figures: Any) -> Iterator[Row]:
    for photos, systems in figures["genuine"].items():
        for watermark, row in systems.items():
            for rule in ("soft", "hard"):
                yield {**row, "photos": photos, "watermark": watermark, "rule": rule}


def _with_and_without_floor(way: str) -> Callable[[Any], str]:
    def cell(row: Any) -> str:
        shares = [row[way][f"{row['rule']}, {floor}"]["six"] for floor in ("no floor", "floor")]
        return " / ".join(f"{100 * share['rate']:.1f}" for share in shares)

    return cell


LOCK_SCHEMES = Table(
    "Genuine pictures accepted under the six distortions",
    _genuine,
    (
        ("photos", "{photos}"),
        ("watermark", "{watermark} ({bits} bits)"),
        ("rule", "{rule}"),
        *((f"{way}, % without / with floor", _with_and_without_floor(way)) for way in WAYS),
    ),
)


def _nulls(figures: Any) -> Iterator[Row]:
    for watermark, row in figures["false_positives"].items():
        for rule in ("soft", "hard"):
            levels = {
                level: [one["rate"] for one in fixed.values()] for level, fixed in row[rule].items()
            }
            cells = {
                level: {"mean": sum(s) / len(s), "low": min(s), "high": max(s)}
                for level, s in levels.items()
            }
            yield {**row, "watermark": watermark.partition(",")[0], "rule": rule, **cells}


def _null_columns(figures: Any) -> list[tuple[str, str | Callable[[Any], str]]]:
    levels = next(iter(figures["false_positives"].values()))["soft"]
    return [
        ("watermark", "{watermark} ({bits} bits)"),
        ("salts", "{salts}"),
        ("rule", "{rule}"),
        *((f"p <= {v}, %", below(v, "{mean:%2} ({low:%2}-{high:%2})")) for v in levels),
    ]


NULLS = Table("Unmarked photos with small p-values, all salts tried", _nulls, _null_columns)

SIMILAR = Table(
    "Payloads moved between similar pictures",
    lambda figures: nested("bits", "kind")(figures["similar"]),
    (
        ("pictures", "{kind}"),
        ("payload", "{bits} bits"),
        *(
            (
                f"{way}, without / with floor",
                below(
                    way,
                    "{no floor/successes} of {no floor/trials} / "
                    "{floor/successes} of {floor/trials}",
                ),
            )
            for way in WAYS
        ),
    ),
)

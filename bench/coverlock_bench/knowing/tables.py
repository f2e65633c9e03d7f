"""Tables of the attackers who know everything but the key, and of what schemes cost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from coverlock_bench.markdown import figures_in, table

SCHEMES = ("scheme 1", "scheme 2")
BAR = 0.01
"""The share of forgeries above which an attack wins."""


def key_attacks_table(figures: dict[str, Any]) -> str:
    """Forgeries from 500 released pictures, and from how many an attack wins, by payload length."""
    rows = []
    for bits, schemes in figures["codes"].items():
        for attack in schemes["scheme 2"]:
            cells = [schemes[scheme].get(attack, {}) for scheme in SCHEMES]
            rows.append([f"{bits} bits", attack, *(c for cell in cells for c in _cells(cell))])
    header = ["payload", "attack"]
    for scheme in SCHEMES:
        header += [f"{scheme}: forged from 500", "wins from"]
    return table(header, rows)


def _cells(counts: dict[str, Any]) -> list[str]:
    """The row of 500 pictures, or the last; and the least number with more than 1 of 100."""
    if not counts:
        return ["-", "-"]
    name = "500" if "500" in counts else list(counts)[-1]
    won = [count for count, row in counts.items() if row["rate"] > BAR]
    tried = f"not from {list(counts)[-1]}"
    shown = _rate(counts[name]) + ("" if name == "500" else f" ({name})")
    return [shown, won[0] if won else tried]


def end_to_end_table(figures: dict[str, Any]) -> str:
    """Forgeries of real pictures."""
    rows = [
        [
            watermark,
            attack,
            count,
            *(_shown(schemes[s].get(attack, {}).get(count)) for s in SCHEMES),
        ]
        for watermark, schemes in figures["pictures"].items()
        for attack, counts in schemes["scheme 1"].items()
        for count in counts
    ]
    return table(["watermark", "attack", "released", *SCHEMES], rows)


def queries_table(figures: dict[str, Any]) -> str:
    """Forgeries with the help of a service that answers."""
    rows = [
        [f"{bits} bits", scheme, answer, _rate(row), f"{row['queries']:.0f}", str(row["budget"])]
        for bits, schemes in figures["queries"].items()
        for scheme, answers in schemes.items()
        for answer, row in answers.items()
    ]
    return table(
        ["payload", "scheme", "service shows", "forged", "queries (median)", "budget"], rows
    )


def lock_schemes_table(figures: dict[str, Any]) -> str:
    """Genuine pictures accepted under the six distortions, by scheme, rule and floor."""
    rows = []
    for photos, systems in figures["genuine"].items():
        for watermark, row in systems.items():
            for rule in ("soft", "hard"):
                cells = [
                    " / ".join(
                        f"{100 * row[scheme][f'{rule}, {floor}']['six']['rate']:.1f}"
                        for floor in ("no floor", "floor")
                    )
                    for scheme in ("keyless", *SCHEMES)
                ]
                rows.append([photos, f"{watermark} ({row['bits']} bits)", rule, *cells])
    header = ["photos", "watermark", "rule"]
    return table([*header, *(f"{s}, % without / with floor" for s in ("keyless", *SCHEMES))], rows)


def nulls_table(figures: dict[str, Any]) -> str:
    """Unmarked photos with small p-values, all salts tried, message held fixed."""
    rows = []
    for watermark, row in figures["false_positives"].items():
        for rule in ("soft", "hard"):
            cells = []
            for fixed in row[rule].values():
                shares = [100 * one["rate"] for one in fixed.values()]
                cells.append(
                    f"{sum(shares) / len(shares):.2f} ({min(shares):.2f}-{max(shares):.2f})"
                )
            rows.append([f"{watermark} ({row['bits']} bits)", str(row["salts"]), rule, *cells])
    levels = [
        f"p <= {level}, %" for level in next(iter(figures["false_positives"].values()))["soft"]
    ]
    return table(["watermark", "salts", "rule", *levels], rows)


def similar_table(figures: dict[str, Any]) -> str:
    """Payloads moved between similar pictures that are accepted without and with the floor."""
    rows = [
        [
            kind,
            f"{bits} bits",
            *(f"{_count(s['no floor'])} / {_count(s['floor'])}" for s in schemes.values()),
        ]
        for bits, kinds in figures["similar"].items()
        for kind, schemes in kinds.items()
    ]
    header = ["pictures", "payload"]
    return table([*header, *(f"{s}, without / with floor" for s in ("keyless", *SCHEMES))], rows)


def _count(row: dict[str, Any]) -> str:
    return f"{row['successes']} of {row['trials']}"


def _shown(row: dict[str, Any] | None) -> str:
    return "-" if row is None else f"{_rate(row)}, {row['psnr']:.1f} dB"


def _rate(row: dict[str, Any]) -> str:
    interval = f"[{100 * row['low']:.1f}, {100 * row['high']:.1f}] %"
    return f"{row['successes']} of {row['trials']} {interval}"


def _of(file: str, make: Callable[[Any], str]) -> Callable[[Path], str]:
    return lambda results: make(figures_in(results / file))


TABLES: dict[str, Callable[[Path], str]] = {
    "key-attacks": _of("key-attacks.json", key_attacks_table),
    "key-attacks-pictures": _of("key-attacks.json", end_to_end_table),
    "key-attacks-queries": _of("key-attacks.json", queries_table),
    "lock-schemes": _of("lock-schemes.json", lock_schemes_table),
    "lock-schemes-similar": _of("lock-schemes.json", similar_table),
    "lock-schemes-nulls": _of("lock-schemes.json", nulls_table),
}

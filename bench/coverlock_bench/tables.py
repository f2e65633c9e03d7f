"""Tables of the README and the docs, rendered from result files and never typed.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end of table -->``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coverlock_sdk.errors import CoverLockError

_BLOCK = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def render(text: str, results: Path) -> str:
    """``text`` with every table made anew from the files in ``results``."""

    def replace(match: re.Match[str]) -> str:
        name = match.group(2)
        if name not in TABLES:
            raise CoverLockError(f"there is no table '{name}': use one of {', '.join(TABLES)}")
        return f"{match.group(1)}{TABLES[name](results)}\n{match.group(3)}"

    return _BLOCK.sub(replace, text)


def _figures(path: Path) -> Any:
    return json.loads(path.read_text())["figures"]


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _of(rate: float, count: int) -> str:
    return f"{round(rate * count)} of {count}"


def _rules_table(results: Path) -> str:
    """Forgeries and genuine pictures, by watermark, defence and rule."""
    rows = []
    for watermark, figures in _figures(results / "rules.json").items():
        for defense in ("none", "coverlock"):
            for rule, rates in figures[defense].items():
                rows.append(
                    [
                        watermark,
                        "CoverLock" if defense == "coverlock" else "none",
                        rule,
                        _of(rates["asr_gt1"], figures["photos"]),
                        _of(rates["tpr"]["clean"], figures["photos"]),
                        f"{100 * rates['tpr_mean_of_six']:.1f} %",
                    ]
                )
    header = ["watermark", "defence", "rule", "forgeries accepted (GT@1)"]
    return table([*header, "genuine accepted", "genuine accepted, six distortions"], rows)


def _roundtrip_table(results: Path) -> str:
    """Marked photos that verify as saved, and what fixed-point binding changes."""
    rows = []
    for watermark, figures in _figures(results / "roundtrip.json").items():
        for name, row in figures.items():
            rule, _, binding = name.partition(": ")
            rows.append(
                [
                    watermark,
                    rule,
                    binding,
                    f"{row['accepted']} of {row['photos']}",
                    f"{100 * row['bit_accuracy']:.2f} %",
                    f"{100 * row['hash_bit_error']:.2f} %",
                    f"{10 ** row['median_log10_p']:.1g}",
                    f"{row['psnr_mean']:.1f} dB",
                ]
            )
    header = ["watermark", "rule", "binding", "accepted", "bits read", "hash error"]
    return table([*header, "median p", "PSNR"], rows)


def _calibration_table(results: Path) -> str:
    """Unmarked photos against fixed messages."""
    rows = []
    for watermark, arms in _figures(results / "calibration.json").items():
        for arm, figures in arms.items():
            ratio = figures["variance_ratio"]
            cells = [watermark, arm, f"{ratio['mean']:.2f} ({ratio['min']:.2f}-{ratio['max']:.2f})"]
            for rule in ("hard", "soft"):
                for level in ("0.01", "0.001"):
                    exceedance = figures["exceedance"][rule][level]
                    cells.append(
                        f"{100 * exceedance['observed']:.2f} % "
                        f"[{100 * exceedance['low']:.2f}, {100 * exceedance['high']:.2f}] "
                        f"expected {100 * exceedance['expected']:.2f}"
                    )
            rows.append(cells)
    header = ["watermark", "", "variance / binomial (min-max over messages)"]
    levels = ["hard, p <= 1e-2", "hard, p <= 1e-3", "soft, p <= 1e-2", "soft, p <= 1e-3"]
    return table([*header, *levels], rows)


def _hash_table(results: Path) -> str:
    return hash_summary(_figures(results / "hash.json"))


def hash_summary(figures: dict[str, Any]) -> str:
    """Each hash of a report in one line, and fair coins to compare them with in the last."""
    rows = [
        [
            name,
            _percent(row["bit_error_mean_of_six"]),
            f"{row['imbalance']:.3f}",
            f"{row['correlation']:.3f}",
            _spread(row["different"]),
            _percent(row["different"]["accepted"]["256"], 3),
            _spread(row["similar"]),
            _percent(row["similar"]["accepted"]["256"]),
            _amount(row["parameters"]),
            _amount(row["bytes"]),
            f"{row['times_dct']:.1f}",
        ]
        for name, row in figures["hashes"].items()
    ]
    coins = figures["fair_coins"]
    rows.append(
        [
            "fair coins",
            "",
            f"{coins['imbalance']:.3f}",
            f"{coins['correlation']:.3f}",
            _spread(coins),
            _percent(coins["accepted"]["256"], 3),
            _spread(coins),
            _percent(coins["accepted"]["256"]),
            *([""] * 3),
        ]
    )
    header = ["hash", "bit error, six distortions", "imbalance", "correlation of bits"]
    different = ["agreement of different pictures", "accepted"]
    similar = ["agreement of similar pictures", "accepted"]
    return table([*header, *different, *similar, "parameters", "bytes", "time / dct"], rows)


def _hash_distortions_table(results: Path) -> str:
    """Bit error of each hash under each distortion."""
    hashes = _figures(results / "hash.json")["hashes"]
    distortions = next(iter(hashes.values()))["bit_error"]
    rows = [
        [distortion, *(_percent(row["bit_error"][distortion]) for row in hashes.values())]
        for distortion in distortions
    ]
    return table(["distortion", *hashes], rows)


def _hash_lengths_table(results: Path) -> str:
    """Pairs of pictures that would be accepted for one another, by length of the message."""
    rows = []
    for name, row in _figures(results / "hash.json")["hashes"].items():
        for kind in ("different", "similar"):
            shares = [_percent(share, 3) for share in row[kind]["accepted"].values()]
            rows.append([name, f"{row[kind]['pairs']:,} {kind}", *shares])
            lengths = list(row[kind]["accepted"])
    return table(["hash", "pairs", *(f"L = {length}" for length in lengths)], rows)


def _spread(agreement: dict[str, Any]) -> str:
    return f"{agreement['mean']:.3f} ± {agreement['std']:.3f}"


def _percent(share: float, digits: int = 2) -> str:
    return f"{100 * share:.{digits}f} %"


def _amount(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _documents_table(results: Path) -> str:
    """Transplants between pages of text."""
    rows = [
        [
            name,
            f"{100 * row['agreement_mean']:.0f} % (at most {100 * row['agreement_max']:.0f} %)",
            *(
                f"{row['forgeries_accepted'][rule]} of {row['forgeries']}"
                for rule in ("hard", "soft")
            ),
        ]
        for name, row in _figures(results / "documents.json").items()
    ]
    return table(["hash", "bits in which codes agree", "accepted, hard", "accepted, soft"], rows)


def _adaptive_table(results: Path) -> str:
    return adaptive_summary(_figures(results / "adaptive.json"))


def adaptive_summary(figures: dict[str, Any]) -> str:
    """Forgeries that pass, by adaptive attacker and budget."""
    rows = [
        [
            attack,
            budget,
            *(_rate(cell[rule]) for rule in ("hard", "soft")),
            f"{cell['psnr']:.1f} dB",
        ]
        for attack, budgets in figures.items()
        for budget, cell in budgets.items()
    ]
    return table(["attack", "budget", "accepted, hard", "accepted, soft", "PSNR"], rows)


def _levers_table(results: Path) -> str:
    return levers_summary(_figures(results / "levers.json"))


def levers_summary(figures: dict[str, Any]) -> str:
    """Collisions and genuine pictures that pass, by lever."""
    rows, budgets = [], list(next(iter(figures.values()))["forgeries"])
    for lever, row in figures.items():
        forged, genuine = [row["forgeries"][budget] for budget in budgets], row["genuine"]
        matched = [_percent(cell["bits_matched"], 0) for cell in (*forged, genuine)]
        rows.append([lever, *(_rate(cell) for cell in (*forged, genuine)), " / ".join(matched)])
    header = ["lever", *(f"collisions within {b} levels" for b in budgets), "genuine, distorted"]
    return table([*header, "bits that match in each"], rows)


def _rate(cell: dict[str, Any]) -> str:
    """Successes of trials, and the interval of the share."""
    interval = f"[{100 * cell['low']:.1f}, {100 * cell['high']:.1f}] %"
    return f"{cell['successes']} of {cell['trials']} {interval}"


def _security_table(name: str) -> Callable[[Path], str]:
    """A table of ``coverlock bench security``."""

    def make(results: Path) -> str:
        from coverlock_bench import security_tables

        return security_tables.TABLES[name][1](_figures(results / "security.json"))

    return make


TABLES: dict[str, Callable[[Path], str]] = {
    "rules": _rules_table,
    "roundtrip": _roundtrip_table,
    "calibration": _calibration_table,
    "hash": _hash_table,
    "hash-distortions": _hash_distortions_table,
    "hash-lengths": _hash_lengths_table,
    "documents": _documents_table,
    "adaptive": _adaptive_table,
    "levers": _levers_table,
    **{
        f"security-{name}": _security_table(name)
        for name in (
            "summary",
            "systems",
            "asr-hard",
            "asr-soft",
            "bit-accuracy",
            "tpr",
            "errors",
            "rt",
        )
    },
}

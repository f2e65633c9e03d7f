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


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


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
                        f"{100 * rates['asr_gt1']:.0f} %",
                        f"{100 * rates['tpr']['clean']:.0f} %",
                        f"{100 * rates['tpr_mean_of_six']:.1f} %",
                    ]
                )
    header = ["watermark", "defence", "rule", "forgeries accepted (GT@1)"]
    return _table([*header, "genuine accepted", "genuine accepted, six distortions"], rows)


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
                    f"1e{row['median_log10_p']:.1f}",
                    f"{row['psnr_mean']:.1f} dB",
                ]
            )
    header = ["watermark", "rule", "binding", "accepted", "bits read", "hash error"]
    return _table([*header, "median p", "PSNR"], rows)


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
    return _table([*header, *levels], rows)


TABLES: dict[str, Callable[[Path], str]] = {
    "rules": _rules_table,
    "roundtrip": _roundtrip_table,
    "calibration": _calibration_table,
}

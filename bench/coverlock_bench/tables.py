"""Tables of the README and the docs, rendered from result files and never typed.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end of table -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coverlock_bench.adaptive import tables as adaptive
from coverlock_bench.auditing import security_tables
from coverlock_bench.deployment import tables as deployment
from coverlock_bench.hashes import tables as hashes
from coverlock_bench.knowing import tables as knowing
from coverlock_bench.markdown import figures_in, of, table
from coverlock_bench.zoo import tables as zoo
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


def _rules_table(results: Path) -> str:
    """Forgeries and genuine pictures, by watermark, defence and rule."""
    rows = []
    for watermark, figures in figures_in(results / "rules.json").items():
        for defense in ("none", "coverlock"):
            for rule, rates in figures[defense].items():
                rows.append(
                    [
                        watermark,
                        "CoverLock" if defense == "coverlock" else "none",
                        rule,
                        of(rates["asr_gt1"], figures["photos"]),
                        of(rates["tpr"]["clean"], figures["photos"]),
                        f"{100 * rates['tpr_mean_of_six']:.1f} %",
                    ]
                )
    header = ["watermark", "defence", "rule", "forgeries accepted (GT@1)"]
    return table([*header, "genuine accepted", "genuine accepted, six distortions"], rows)


def _roundtrip_table(results: Path) -> str:
    """Marked photos that verify as saved, and what fixed-point binding changes."""
    rows = []
    for watermark, figures in figures_in(results / "roundtrip.json").items():
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


def _security_table(make: Callable[[dict[str, Any]], str]) -> Callable[[Path], str]:
    """A table of ``coverlock bench security``."""
    return lambda results: make(figures_in(results / "security.json"))


TABLES: dict[str, Callable[[Path], str]] = {
    "rules": _rules_table,
    "roundtrip": _roundtrip_table,
    **hashes.TABLES,
    **zoo.TABLES,
    **adaptive.TABLES,
    **knowing.TABLES,
    **deployment.TABLES,
    **{
        f"security-{name}": _security_table(make)
        for name, (_, make) in security_tables.TABLES.items()
    },
}

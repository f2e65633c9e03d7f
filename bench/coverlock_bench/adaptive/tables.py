"""Tables of adaptive attackers and of what is done against them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from coverlock_bench.markdown import figures_in, percent, table


def _adaptive_table(results: Path) -> str:
    return adaptive_summary(figures_in(results / "adaptive.json"))


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
    return levers_summary(figures_in(results / "levers.json"))


def levers_summary(figures: dict[str, Any]) -> str:
    """Collisions and genuine pictures that pass, by lever."""
    rows, budgets = [], list(next(iter(figures.values()))["forgeries"])
    for lever, row in figures.items():
        forged, genuine = [row["forgeries"][budget] for budget in budgets], row["genuine"]
        matched = [percent(cell["bits_matched"], 0) for cell in (*forged, genuine)]
        rows.append([lever, *(_rate(cell) for cell in (*forged, genuine)), " / ".join(matched)])
    header = ["lever", *(f"collisions within {b} levels" for b in budgets), "genuine, distorted"]
    return table([*header, "bits that match in each"], rows)


def _rate(cell: dict[str, Any]) -> str:
    """Successes of trials, and the interval of the share."""
    interval = f"[{100 * cell['low']:.1f}, {100 * cell['high']:.1f}] %"
    return f"{cell['successes']} of {cell['trials']} {interval}"


TABLES: dict[str, Callable[[Path], str]] = {
    "adaptive": _adaptive_table,
    "levers": _levers_table,
}

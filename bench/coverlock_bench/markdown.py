"""Figures from a result file, and the Markdown they are shown in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def figures_in(path: Path) -> Any:
    """What a result file reports."""
    return json.loads(path.read_text())["figures"]


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def percent(share: float, digits: int = 2) -> str:
    """A share as ``12.34 %``."""
    return f"{100 * share:.{digits}f} %"


def of(rate: float, count: int) -> str:
    """A rate as ``3 of 60``."""
    return f"{round(rate * count)} of {count}"

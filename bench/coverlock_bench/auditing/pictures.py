"""Where pictures of results begin."""

from __future__ import annotations

from typing import Any

from coverlock_sdk.errors import needs


def new_figure(width: float, height: float) -> Any:
    """An empty matplotlib figure of so many inches, which needs no display."""
    with needs("a picture of results", "matplotlib", "bench"):
        from matplotlib.figure import Figure
    return Figure(figsize=(width, height), layout="constrained")

"""Where pictures of results begin."""

from __future__ import annotations

from typing import Any

from coverlock_sdk.errors import MissingModelError


def new_figure(width: float, height: float) -> Any:
    """An empty matplotlib figure of so many inches, which needs no display."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingModelError(
            "pictures of results are drawn with matplotlib: pip install 'coverlock-sdk[bench]'"
        ) from error
    return Figure(figsize=(width, height), layout="constrained")

"""What the records of trained watermarks say; tables are rendered without PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COUNTS = (1, 10, 100)
"""Numbers of sources for which RT is recorded."""


def covers_seen(record: Mapping[str, Any], recipe: Mapping[str, Any]) -> int:
    """Covers in training, which inverted twins show twice; older records count pictures alone.

    Those of weights that a run began with are counted too.
    """
    twice = recipe.get("inverted_twins", False)
    covers: int = record.get("covers_seen", record["images_seen"] // (1 + twice))
    before = record.get("begun_with")
    return covers + (covers_seen(before, before["recipe"]) if before else 0)

"""The watermarks that were trained here: what their cards say, and their transferability."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coverlock_bench.settings import named_watermark
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.plugin_calls import working_size
from experiments.trained import transferability


def references(names: Sequence[str], images: list[Path], seed: int) -> dict[str, Any]:
    """Card and RT@1, RT@10 and RT@100 of each, on pictures that training has not seen."""
    figures = {}
    for name in names:
        watermark = named_watermark(name)
        card = watermark.card
        if "recipe" not in card:
            raise CoverLockError(f"the weights of '{name}' come without a card of their training")
        figures[name] = {
            "bits": watermark.bits,
            "side": working_size(watermark)[0],
            "card": card,
            "rt": transferability(watermark, images, seed),
        }
    return figures

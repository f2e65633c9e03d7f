"""The watermarks that were trained here: their cards, what they read, their transferability."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coverlock_bench.photos import load_squares
from coverlock_bench.settings import named_watermark
from coverlock_bench.trial import floats
from coverlock_sdk.errors import CoverLockError, needs
from coverlock_sdk.plugin_calls import working_size
from coverlock_sdk.watermarking.network_watermark import NetworkWatermark
from experiments.trained import transferability

READ = 100
"""Pictures that are marked to see how many bits are read in them."""


def references(names: Sequence[str], images: list[Path], seed: int) -> dict[str, Any]:
    """Of each its card, and bits read and RT on pictures that training has not seen."""
    figures = {}
    for name in names:
        watermark = named_watermark(name)
        card = watermark.card
        if "recipe" not in card or not isinstance(watermark, NetworkWatermark):
            raise CoverLockError(f"the weights of '{name}' come without a card of their training")
        figures[name] = {
            "bits": watermark.bits,
            "side": working_size(watermark)[0],
            "card": card,
            **_read(watermark, images),
            "rt": transferability(watermark, images, seed),
        }
    return figures


def _read(watermark: NetworkWatermark, images: list[Path]) -> dict[str, Any]:
    """PSNR, and bits read at the network's own size as marked and under the six distortions."""
    with needs("a trained watermark", "PyTorch", "torch"):
        import torch

        from coverlock_sdk.training.watermarks.examination import examine, quality
    network = watermark.network
    covers = torch.from_numpy(floats(load_squares(images[:READ], network.size)))
    _, robustness = examine(network, covers)
    return {**quality(network, covers), "accuracy_under_distortion": robustness}

"""The encoder as a graph of its own, for watermarks that offer it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from coverlock_export.fused import Embedding
from coverlock_export.graphs import export_graph, serialise
from coverlock_sdk.bundles.bundle import INPUT, PAYLOADS
from coverlock_sdk.contract import Watermark
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.plugin_calls import embed
from coverlock_sdk.verifier.onnx_runtime import cpu_session

Pixels = npt.NDArray[np.uint8]

TOLERANCE = 1e-3
"""A quarter of an 8-bit step: how far the graph may be from the plugin's own encoder."""


def export_encoder(
    watermark: Watermark, images: Pixels, seed: int
) -> tuple[bytes | None, dict[str, Any]]:
    """The graph, where there is one that exports and is exact; and how exact, or why not."""
    encoder = watermark.encoder_module()
    if encoder is None:
        return None, {"left_out": f"'{watermark.name}' offers no encoder_module()"}
    try:
        graph = export_graph(
            Embedding(encoder),
            [
                torch.zeros(1, *images.shape[1:], dtype=torch.uint8),
                torch.zeros(1, watermark.bits, dtype=torch.uint8),
            ],
            [INPUT, PAYLOADS],
            ["residuals"],
            f"the encoder of '{watermark.name}'",
        )
    except CoverLockError as error:
        return None, {"left_out": str(error)}
    content = serialise(graph)
    difference = _difference(watermark, content, images, seed)
    figures = {"photos": len(images), "max_difference": difference}
    if difference > TOLERANCE:
        reason = f"its pictures differ from the plugin's by up to {difference:.2g}"
        return None, {**figures, "left_out": reason}
    return content, figures


def _difference(watermark: Watermark, content: bytes, images: Pixels, seed: int) -> float:
    rng = np.random.default_rng(seed)
    payloads = rng.integers(0, 2, (len(images), watermark.bits), dtype=np.uint8)
    views = np.moveaxis(images, -1, 1).astype(np.float32) / np.float32(255)
    [residuals] = cpu_session(content).run(None, {INPUT: images, PAYLOADS: payloads})
    # Whoever adds a residual clips to [0, 1], as the plugin's own embed does.
    marked = np.clip(views + residuals, 0, 1)
    return float(np.abs(marked - embed(watermark, views, payloads)).max())

"""Which watermark should I use? What those that are here cost and bring, side by side."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.photos import Picture8, load_squares, to_8_bit, to_float
from coverlock_bench.rt import residual_transferability
from coverlock_bench.settings import named_watermark
from coverlock_bench.timing import seconds_in_turns
from coverlock_sdk import Watermark
from coverlock_sdk.arrays import Bits
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.plugin_calls import decode, embed, working_size

RT_MESSAGES = 5
TURNS = 5


def choices(names: Sequence[str], photos: list[Path], seed: int) -> dict[str, Any]:
    """Quality, bits read, transferability and time of each watermark on the same photos."""
    return {name: _measured(named_watermark(name), photos, seed) for name in names}


def _measured(watermark: Watermark, photos: list[Path], seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    side = working_size(watermark)[0]
    covers = load_squares(photos, side)
    payloads = rng.integers(0, 2, (len(covers), watermark.bits), dtype=np.uint8)
    marked = [_marked(watermark, *pair) for pair in zip(covers, payloads, strict=True)]
    squeezed = [EVALUATION["jpeg"](picture, rng) for picture in marked]
    half = len(covers) // 2
    rt = residual_transferability(
        watermark, covers, sources=1, targets=half, messages=RT_MESSAGES, seed=seed
    )
    pairs = zip(covers, marked, strict=True)
    return {
        "bits": watermark.bits,
        "any_size": watermark.native_size is None,
        "side": side,
        "pictures": len(covers),
        "psnr": float(np.mean([read(cover).psnr(read(picture)) for cover, picture in pairs])),
        "bit_accuracy": _accuracy(watermark, marked, payloads),
        "bit_accuracy_jpeg": _accuracy(watermark, squeezed, payloads),
        "rt": {"rt": rt.rt, "low": rt.low, "high": rt.high},
        **_seconds(watermark, covers[0], payloads[0]),
    }


def _marked(watermark: Watermark, cover: Picture8, payload: Bits) -> Picture8:
    return to_8_bit(embed(watermark, to_float(cover)[None], payload[None])[0])


def _accuracy(watermark: Watermark, pictures: Sequence[Picture8], payloads: Bits) -> float:
    read_bits = [decode(watermark, to_float(picture)[None])[0] > 0 for picture in pictures]
    return float((np.stack(read_bits) == payloads).mean())


def _seconds(watermark: Watermark, cover: Picture8, payload: Bits) -> dict[str, float]:
    """Processor time of one core, so that a busy machine does not count."""
    view = to_float(cover)[None]
    works = (
        lambda: embed(watermark, view, payload[None]),
        lambda: decode(watermark, view),
    )
    seconds = np.median(seconds_in_turns(works, TURNS, clock=time.process_time), axis=0)
    return dict(zip(("embed_seconds", "decode_seconds"), seconds.tolist(), strict=True))

"""A watermark, locked or bare, as benchmarks ask for it: float pictures and rows of bits."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from coverlock_bench.settings import named_watermark
from coverlock_sdk import NoDefense, wrap
from coverlock_sdk.arrays import Bits, Floats, Images, Logits
from coverlock_sdk.errors import WeakMarkWarning
from coverlock_sdk.loading import DEFAULT_HASH

ANY_FPR = 0.5
"""Benchmarks read bits and judge by themselves."""


class Subject:
    """Marks and reads one picture (3, H, W) after the other, at its own size."""

    def __init__(self, watermark: str, locked: bool = True, hash: str = DEFAULT_HASH) -> None:
        bare = named_watermark(watermark)
        self._protected = (
            wrap(bare, hash=hash, fpr=ANY_FPR) if locked else NoDefense(ANY_FPR).protect(bare)
        )
        self.name = f"{bare.name} (locked)" if locked else bare.name
        self.size = bare.native_size
        self.bits = self._protected.bits

    def mark(self, picture: Images, message: Bits) -> Images:
        """The picture with a message; a weak mark is for the benchmark to notice."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakMarkWarning)
            marked: Images = self._protected.embed(picture, np.asarray(message, np.uint8))
        return marked

    def read(self, picture: Images) -> Logits:
        """The logits (bits,) of the message in a picture."""
        logits: Logits = self._protected.decode(picture)
        return logits.reshape(-1)

    def certainty(self, logits: Logits) -> float:
        """From 0, where every bit is a toss, to 1: how sure the decoder is of what it read."""
        confidence: Floats = self._protected.watermark.calibration.confidence(logits)
        return float(np.mean(2 * confidence - 1))


def bits_of(message: Any, length: int) -> Bits:
    """A message of another framework (a tensor, an array, a list; one row or many) as one row."""
    values = message.detach().cpu().numpy() if hasattr(message, "detach") else message
    bits: Bits = (np.asarray(values).reshape(-1, length)[0] > 0).astype(np.uint8)
    return bits

"""Perceptual hashes in wide use, as baselines: pHash of ``imagehash`` and PDQ of ``pdqhash``.

Both compute bits from an 8-bit picture, half of them set. Neither has been calibrated, so the
soft rule cannot use their confidence.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from coverlock_bench.photos import to_8_bit
from coverlock_sdk import ImageHash
from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.errors import needs

SIDE = 256
"""Pictures are resampled to this many pixels per side; both hashes then shrink them to 64."""


class PHash(ImageHash):
    """Which low DCT frequencies of the luminance lie above their median, 16 x 16 of them."""

    name = "phash"
    input_size = (SIDE, SIDE)

    def __init__(self) -> None:
        self._imagehash = _package("imagehash")

    def logits(self, images: Images) -> Logits:
        """+1 for a set bit and -1 otherwise: pHash gives no confidence."""
        from PIL import Image

        pictures = [Image.fromarray(to_8_bit(image)) for image in images]
        codes = [self._imagehash.phash(picture, hash_size=16).hash.ravel() for picture in pictures]
        return np.where(codes, 1, -1).astype(np.float32)


class Pdq(ImageHash):
    """PDQ, which large platforms match pictures with: DCT frequencies against their median."""

    name = "pdq"
    input_size = (SIDE, SIDE)

    def __init__(self) -> None:
        self._pdqhash = _package("pdqhash")

    def logits(self, images: Images) -> Logits:
        """How far each frequency is above the median of its picture."""
        frequencies = np.stack(
            [self._pdqhash.compute_float(to_8_bit(image))[0] for image in images]
        )
        above = frequencies - np.median(frequencies, axis=1, keepdims=True)
        return above.astype(np.float32)


def _package(name: str) -> Any:
    with needs("this hash", None, "bench"):
        return import_module(name)

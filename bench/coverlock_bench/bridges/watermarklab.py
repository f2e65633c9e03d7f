"""watermarklab: our watermarks, locked or bare, as one of its models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coverlock_bench.bridges.subject import Subject, bits_of
from coverlock_bench.photos import to_8_bit, to_float
from coverlock_sdk.errors import MissingModelError
from coverlock_sdk.loading import DEFAULT_HASH
from coverlock_sdk.plugin_calls import ANY_SIZE_SIDE

try:
    from watermarklab.utils.basemodel import BaseWatermarkModel, Result
except ImportError as error:
    raise MissingModelError(
        f"the bridge to watermarklab needs it ({error}): pip install watermarklab"
    ) from error


class CoverLockModel(BaseWatermarkModel):  # type: ignore[misc]
    """Pictures are 8-bit RGB (H, W, 3)."""

    def __init__(self, watermark: str, locked: bool = True, hash: str = DEFAULT_HASH) -> None:
        subject = Subject(watermark, locked, hash)
        side = subject.size[0] if subject.size else ANY_SIZE_SIDE
        super().__init__(subject.bits, side, subject.name, "marked through CoverLock SDK")
        self._subject = subject

    def embed(self, cover_list: Sequence[Any], secrets: Sequence[Any]) -> Any:
        """The pictures with their messages."""
        rows = [bits_of(secret, self._subject.bits) for secret in secrets]
        pictures = zip(cover_list, rows, strict=True)
        marked = [self._subject.mark(to_float(np.asarray(c, np.uint8)), row) for c, row in pictures]
        return Result(stego_img=[to_8_bit(one) for one in marked], emb_bits=[*map(list, rows)])

    def extract(self, stego_list: Sequence[Any]) -> Any:
        """The messages in pictures."""
        read = [self._subject.read(to_float(np.asarray(one, np.uint8))) for one in stego_list]
        return Result(ext_bits=[(logits > 0).astype(int).tolist() for logits in read])

    def recover(self, stego_list: Sequence[Any]) -> Any:
        """These marks are not taken out again: the pictures as they are."""
        return Result(rec_img=list(stego_list))

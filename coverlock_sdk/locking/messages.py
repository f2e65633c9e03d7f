"""Messages and payloads: the bits a caller hands over, checked once at the door."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from coverlock_sdk.arrays import Bits
from coverlock_sdk.errors import MessageError


def as_bits(value: Any, count: int, bits: int) -> Bits:
    """``value`` as (count, bits) of 0 and 1; one message stands for all ``count`` pictures.

    Accepts arrays, tensors, nested lists and booleans.
    """
    if count == 0:
        return np.zeros((0, bits), dtype=np.uint8)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        array = np.asarray(None)
    if array.ndim == 0:
        raise MessageError(
            f"{value!r:.40} is not a message: pass a string such as 'order-4711', or a sequence of "
            f"{bits} bits, each 0 or 1"
        )
    if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
        raise MessageError("a message may contain only the bits 0 and 1")
    if array.ndim == 1:
        array = np.broadcast_to(array, (count, array.size))
    if array.ndim != 2:
        raise MessageError(
            f"messages must have the shape (N, {bits}), but these have {array.shape}"
        )
    if array.shape[1] != bits:
        raise MessageError(f"the message has {array.shape[1]} bits, but {bits} are needed")
    if array.shape[0] != count:
        raise MessageError(
            f"there are {array.shape[0]} messages for {count} pictures: "
            "give one for all of them, or one for each"
        )
    return np.array(array, dtype=np.uint8)

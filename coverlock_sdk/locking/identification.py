"""Messages: bits, identifiers, and which of many registered ones a picture carries."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Bits
from coverlock_sdk.documents import DocumentError, read_file
from coverlock_sdk.errors import MessageError
from coverlock_sdk.locking.keys import codeword
from coverlock_sdk.locking.statistics import Weights
from coverlock_sdk.locking.verdict import Verdict


@dataclass(frozen=True)
class Identification:
    """The registered message that fits a picture best, and whether it fits well enough."""

    label: Any
    """The identifier, mapping key, or row number of the best message; None when rejected."""
    verdict: Verdict

    def __bool__(self) -> bool:
        return self.verdict.accepted

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain JSON values."""
        return {"label": self.label, **self.verdict.to_dict()}


@dataclass(frozen=True)
class MessageBook:
    """Registered messages to choose from. Build it once and identify many pictures with it."""

    labels: Sequence[Any]
    messages: Sequence[str | Bits]
    bits: int

    @classmethod
    def of(cls, messages: Any, bits: int) -> MessageBook:
        """From identifiers, an array (N, bits), or a mapping from labels to messages."""
        labels: Sequence[Any]
        if isinstance(messages, Mapping):
            labels, rows = list(messages), list(messages.values())
        elif not hasattr(messages, "__len__") or getattr(messages, "ndim", 1) == 0:
            raise MessageError(
                f"a {type(messages).__name__} is not a list of messages: pass an array "
                f"(N, {bits}), a mapping from labels to messages, or a list of identifiers"
            )
        elif len(messages) and all(isinstance(message, str) for message in messages):
            labels, rows = list(messages), list(messages)
        else:
            labels, rows = range(len(messages)), messages
        if not len(labels):
            raise MessageError("there are no messages to choose from")
        if any(isinstance(row, str) for row in rows) and isinstance(labels, list):
            return cls(labels, rows, bits)
        return cls(labels, list(as_bits(rows, len(labels), bits)), bits)

    def __len__(self) -> int:
        return len(self.labels)

    def nearest(self, read: npt.NDArray[np.bool_], weights: Weights) -> int:
        """Without a key, the row that agrees most with ``read``, counting bits by their weight."""
        return int(np.argmax((self._codewords == read) @ weights))

    @cached_property
    def _codewords(self) -> Bits:
        """All messages (N, bits), if there is no key."""
        rows = [
            codeword(message, None, self.bits) if isinstance(message, str) else message
            for message in self.messages
        ]
        return np.stack(rows)


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
            "pass one for all of them, or one for each"
        )
    return np.array(array, dtype=np.uint8)


def read_identifiers(path: Path) -> list[str]:
    """Read registered identifiers from a text file, one per line."""
    try:
        lines = read_file(path).decode("utf-8-sig").splitlines()
    except DocumentError as error:
        raise MessageError(str(error)) from None
    except UnicodeDecodeError:
        raise MessageError(f"{path} is not a text file: write one identifier per line") from None
    identifiers = [line.strip() for line in lines if line.strip()]
    if not identifiers:
        raise MessageError(f"{path} has no identifiers: write one per line")
    return identifiers

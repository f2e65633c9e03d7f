"""Finding out which of many registered messages a picture carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from coverlock_sdk.documents import DocumentError, read_file
from coverlock_sdk.errors import MessageError
from coverlock_sdk.locking.keys import Key, Keyring, codeword, serial_map
from coverlock_sdk.locking.messages import as_bits
from coverlock_sdk.locking.serials import Serial
from coverlock_sdk.locking.statistics import Weights
from coverlock_sdk.locking.verdict import Verdict

Bits = npt.NDArray[np.uint8]

Kind = Literal["identifier", "serial", "bits"]


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


class MessageBook:
    """Registered messages, packed so that a million of them are searched in a fraction of a second.

    Build it once and identify many pictures with it.
    """

    def __init__(
        self,
        labels: Sequence[Any],
        packed: Mapping[Key | None, Bits],
        bits: int,
        kind: Kind = "bits",
        maps: Mapping[Key | None, npt.NDArray[np.int64]] | None = None,
    ) -> None:
        if not len(labels):
            raise MessageError("there is no registered message to choose from")
        self.labels = labels
        self.bits = bits
        self.kind = kind
        self._packed = packed
        self._maps = maps or {}

    @classmethod
    def of_messages(cls, messages: Any, bits: int) -> MessageBook:
        """From an array of messages (N, bits), or a mapping from labels to messages."""
        labels: Sequence[Any]
        if isinstance(messages, Mapping):
            labels, rows = list(messages), list(messages.values())
        elif not hasattr(messages, "__len__") or getattr(messages, "ndim", 1) == 0:
            raise MessageError(
                f"a {type(messages).__name__} is not a book of messages: give an array "
                f"(N, {bits}), a mapping from labels to messages, or a list of identifiers"
            )
        else:
            labels, rows = range(len(messages)), messages
        return cls(labels, {None: _pack(as_bits(rows, len(labels), bits))}, bits)

    @classmethod
    def of_identifiers(
        cls, identifiers: Sequence[str], keyring: Keyring | None, bits: int
    ) -> MessageBook:
        """From identifiers or serials: their codewords under every active key.

        Under a key of scheme 2 codewords of identifiers depend on the salt and are not packed.
        """
        kind = kind_of(identifiers[0]) if len(identifiers) else "identifier"
        if any(kind_of(name) != kind for name in identifiers):
            raise MessageError("a book holds identifiers or serials, but not both")
        packed = {
            key: _pack(np.stack([codeword(name, key, bits) for name in identifiers]))
            for key in _packed_keys(keyring.keys if keyring else (None,), kind)
            if len(identifiers)
        }
        maps: dict[Key | None, npt.NDArray[np.int64]] = {
            key: np.array([serial_map(name, key) for name in identifiers])
            for key in packed
            if key is not None and key.scheme > 1
        }
        return cls(list(identifiers), packed, bits, kind, maps)

    def __len__(self) -> int:
        return len(self.labels)

    def require_keys(self, keys: Sequence[Key | None]) -> None:
        """Refuse a book of codewords that were made under other keys than ``keys``."""
        if self.kind != "bits" and set(self._packed) != set(_packed_keys(keys, self.kind)):
            raise MessageError(
                "the book holds codewords of other keys: build it again with this lock"
            )

    def message(self, index: int, key: Key | None) -> Bits:
        """The bits of one registered message, as they stand under ``key``."""
        return np.unpackbits(self._columns(key)[:, index])[: self.bits]

    def by_map(self, key: Key) -> dict[int, npt.NDArray[np.int64]]:
        """The rows of serials by which of its maps ``key`` locks them under."""
        maps = self._maps[key]
        return {int(one): np.flatnonzero(maps == one) for one in np.unique(maps)}

    def best(
        self,
        decoded: Bits,
        weights: Weights | None,
        key: Key | None,
        rows: npt.NDArray[np.int64] | None = None,
    ) -> int:
        """Index of the message that agrees most with ``decoded``, each bit weighed if asked.

        With ``rows`` it is one of these.
        """
        columns = self._columns(key)
        if rows is not None:
            columns = columns[:, rows]
        if weights is None:
            best = int(np.argmin(self._mismatches(columns, np.packbits(decoded))))
        else:
            best = int(np.argmax(self._weighted_matches(columns, decoded, weights)))
        return best if rows is None else int(rows[best])

    def _columns(self, key: Key | None) -> Bits:
        return self._packed[key] if key in self._packed else self._packed[None]

    @staticmethod
    def _mismatches(columns: Bits, decoded: Bits) -> npt.NDArray[np.uint16]:
        total = np.zeros(columns.shape[1], dtype=np.uint16)
        for column, byte in zip(columns, decoded, strict=True):
            total += np.bitwise_count(column ^ byte)
        return total

    def _weighted_matches(
        self, columns: Bits, decoded: Bits, weights: Weights
    ) -> npt.NDArray[np.int32]:
        """Score eight bits at a time: a table holds the score of each of the 256 byte values."""
        bytes_ = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
        padding = 8 * len(columns) - self.bits
        wanted = np.pad(decoded, (0, padding)).reshape(-1, 8)
        worth = np.pad(weights, (0, padding)).reshape(-1, 8)
        total = np.zeros(columns.shape[1], dtype=np.int32)
        for column, bits, weight in zip(columns, wanted, worth, strict=True):
            table = ((bytes_ == bits) @ weight).astype(np.int32)
            total += table[column]
        return total


def kind_of(message: Any) -> Kind:
    """What a message was given as: bits, an identifier, or the serial of one picture."""
    if isinstance(message, str):
        return "serial" if isinstance(message, Serial) else "identifier"
    return "bits"


def _packed_keys(keys: Sequence[Key | None], kind: Kind) -> list[Key | None]:
    """The keys under which a message has one codeword, whatever the salt."""
    return [key for key in keys if key is None or key.scheme == 1 or kind == "serial"]


def read_identifiers(path: Path) -> list[str]:
    """The registered identifiers of a text file, one on each line."""
    try:
        lines = read_file(path).decode("utf-8-sig").splitlines()
    except DocumentError as error:
        raise MessageError(str(error)) from None
    except UnicodeDecodeError:
        raise MessageError(
            f"{path} is not a text file: write one identifier on each line"
        ) from None
    identifiers = [line.strip() for line in lines if line.strip()]
    if not identifiers:
        raise MessageError(f"{path} has no identifiers: write one on each line")
    return identifiers


def _pack(messages: Bits) -> Bits:
    """(N, bits) to (bytes, N): one contiguous column of bytes per eight bits."""
    return np.ascontiguousarray(np.packbits(messages, axis=1).T)

"""Finds the few manifests in a repository that a picture may belong to.

A fingerprint is the signs of a public code, compared bit by bit. All soft bindings of a manifest
must match, so manifests with distant fingerprints are skipped. The lock verifies the few that are
left, so thirty bits of payload are enough for a repository of any size.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_plugins.content_credentials.repository import Look, ManifestRepository
from coverlock_sdk import ImageHash
from coverlock_sdk.arrays import Bits
from coverlock_sdk.locking.statistics import corrected, hard_p_value

TOLERANCE = 0.25
"""The share of its bits in which the fingerprint of a picture may differ from the signed one."""

MOST_CANDIDATES = 64
"""Verify at most this many of the nearest entries."""


@dataclass(frozen=True)
class Shelf:
    """What look-ups need from entries whose fingerprints and payloads can be compared."""

    numbers: npt.NDArray[np.int64]
    fingerprints: Bits
    """(N, bytes of a fingerprint)"""
    payloads: Bits
    """(N, bytes of a payload)"""
    keys: frozenset[str | None]
    """Fingerprints of the keys that the pictures were locked with."""

    @classmethod
    def of(cls, looks: Sequence[Look]) -> Shelf:
        """The shelf of entries with the same watermark, hash and lengths."""
        return cls(
            np.array([look.number for look in looks], dtype=np.int64),
            _rows([look.fingerprint for look in looks]),
            _rows([look.payload for look in looks]),
            frozenset(look.key for look in looks),
        )

    def __add__(self, other: Shelf) -> Shelf:
        return Shelf(
            np.concatenate([self.numbers, other.numbers]),
            np.concatenate([self.fingerprints, other.fingerprints]),
            np.concatenate([self.payloads, other.payloads]),
            self.keys | other.keys,
        )

    def nearest(self, fingerprint: bytes, dimensions: int) -> list[int]:
        """The numbers of the entries within reach of a fingerprint, the nearest first."""
        found = _distances(fingerprint, self.fingerprints)
        near = np.flatnonzero(found <= most_distance(dimensions))
        order = near[np.argsort(found[near], kind="stable")][:MOST_CANDIDATES]
        return [int(number) for number in self.numbers[order]]

    def bearer(self, payload: Bits, false_positives: float) -> int | None:
        """The number of the entry whose picture carries ``payload`` (bits,), if one does.

        If the decoder reads the payload of another picture, the mark was probably transplanted.
        Payloads of locked marks are random, so unmarked pictures rarely show one.
        """
        wrong = _distances(np.packbits(payload).tobytes(), self.payloads)
        best = int(np.argmin(wrong))
        right = np.arange(len(payload)) >= wrong[best]
        p_value = corrected(hard_p_value(right), len(self.numbers))
        return int(self.numbers[best]) if p_value <= false_positives else None


class Shelves:
    """The look-ups of a repository, kept up to date."""

    def __init__(self, repository: ManifestRepository) -> None:
        self._repository = repository
        self._shelves: dict[tuple[str, str, int, int], Shelf] = {}
        self._last = 0
        self._lock = threading.Lock()

    def of(self, watermark: str, hash: ImageHash, bits: int) -> Shelf | None:
        """The up-to-date shelf of a watermark with this many bits and a hash."""
        with self._lock:
            new: dict[tuple[str, str, int, int], list[Look]] = {}
            for look in self._repository.looks(after=self._last):
                lengths = len(look.fingerprint), len(look.payload)
                new.setdefault((look.watermark, look.hash, *lengths), []).append(look)
                self._last = look.number
            for kind, looks in new.items():
                shelf, known = Shelf.of(looks), self._shelves.get(kind)
                self._shelves[kind] = known + shelf if known else shelf
            lengths = byte_length(hash.dimensions), byte_length(bits)
            return self._shelves.get((watermark, hash.name, *lengths))


def byte_length(bits: int) -> int:
    """The number of bytes that hold this many bits."""
    return -(-bits // 8)


def most_distance(dimensions: int) -> int:
    """How many bits may differ between fingerprints by a hash with this many dimensions."""
    return int(TOLERANCE * dimensions)


def distance(one: bytes, other: bytes) -> int:
    """The number of bits in which two fingerprints differ."""
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).bit_count()


def _distances(one: bytes, many: Bits) -> npt.NDArray[np.int64]:
    """The number of bits in which ``one`` differs from each row of ``many``."""
    differing: npt.NDArray[Any] = many ^ np.frombuffer(one, dtype=np.uint8)
    if differing.shape[1] % 8 == 0:  # in words it is ten times as fast
        differing = differing.view(np.uint64)
    return np.bitwise_count(differing).sum(axis=1, dtype=np.int64)


def _rows(values: Sequence[bytes]) -> Bits:
    return np.frombuffer(b"".join(values), dtype=np.uint8).reshape(len(values), len(values[0]))

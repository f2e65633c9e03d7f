"""Finding the few manifests that a picture may belong to among all of a repository.

A fingerprint is the signs of a public code, compared bit by bit. All soft bindings of a manifest
must match, so a manifest whose fingerprint is too far away needs no second look. The lock verifies
the handful that is left: thirty bits of payload are then enough for a repository of any size.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Bits, Logits
from coverlock_sdk.locking.statistics import corrected, hard_p_value

TOLERANCE = 0.25
"""The share of its bits in which the fingerprint of a picture may differ from the signed one."""

LONGEST = 1024
"""Bytes of a fingerprint, at most."""

MOST_CANDIDATES = 64
"""Nearest entries that are verified, however many are near enough."""


class Look(NamedTuple):
    """The part of an entry that look-ups go through; there may be millions of entries."""

    number: int
    watermark: str
    hash: str
    key: str | None
    fingerprint: bytes
    payload: bytes


@dataclass(frozen=True)
class Shelf:
    """What look-ups need of the entries of one watermark and one hash."""

    numbers: npt.NDArray[np.int64]
    fingerprints: Bits
    """(N, bytes of a fingerprint)"""
    payloads: Bits
    """(N, bytes of a payload)"""
    keys: frozenset[str | None]
    """Fingerprints of the keys that the pictures were locked with."""

    @classmethod
    def of(cls, looks: Sequence[Look]) -> Shelf:
        """The shelf of some entries, all of one watermark and one hash."""
        width = max(len(look.payload) for look in looks)
        payloads = b"".join(look.payload.ljust(width, b"\0") for look in looks)
        return cls(
            np.array([look.number for look in looks], dtype=np.int64),
            rows_of([look.fingerprint for look in looks], len(looks[0].fingerprint)),
            np.frombuffer(payloads, dtype=np.uint8).reshape(-1, width),
            frozenset(look.key for look in looks),
        )

    def __add__(self, other: Shelf) -> Shelf:
        return Shelf(
            np.concatenate([self.numbers, other.numbers]),
            _stacked(self.fingerprints, other.fingerprints),
            _stacked(self.payloads, other.payloads),
            self.keys | other.keys,
        )

    def nearest(self, fingerprint: bytes, most: int) -> list[tuple[int, int]]:
        """Distance and number of the entries within ``most`` bits, the nearest first."""
        found = distances(fingerprint, self.fingerprints)
        near = np.flatnonzero(found <= most)
        order = near[np.argsort(found[near], kind="stable")][:MOST_CANDIDATES]
        return [(int(found[row]), int(self.numbers[row])) for row in order]

    def bearer(self, payload: Bits, false_positives: float) -> int | None:
        """The number of the entry whose picture carries ``payload`` (bits,), if one does.

        That the decoder reads the payload of another picture is what a transplanted mark looks
        like. Payloads of locked marks are random, so an unmarked picture seldom shows one.
        """
        wanted = np.packbits(payload)
        if self.payloads.shape[1] != len(wanted):
            return None
        wrong = np.bitwise_count(self.payloads ^ wanted).sum(axis=1)
        best = int(np.argmin(wrong))
        right = np.arange(len(payload)) >= wrong[best]
        p_value = corrected(hard_p_value(right), len(self.numbers))
        return int(self.numbers[best]) if p_value <= false_positives else None


class Looks(Protocol):
    """Where entries come from: a repository."""

    def looks(self, after: int) -> list[Look]:
        """What look-ups need of all entries that came after the one of this number."""


class Shelves:
    """The look-ups of a repository, kept up to date."""

    def __init__(self, repository: Looks) -> None:
        self._repository = repository
        self._shelves: dict[tuple[str, str], Shelf] = {}
        self._last = 0
        self._lock = threading.Lock()

    def all(self) -> dict[tuple[str, str], Shelf]:
        """The shelf of each watermark and hash, entries that came meanwhile included."""
        with self._lock:
            sorted_out: dict[tuple[str, str], list[Look]] = {}
            for look in self._repository.looks(after=self._last):
                sorted_out.setdefault((look.watermark, look.hash), []).append(look)
                self._last = look.number
            for kind, looks in sorted_out.items():
                new = Shelf.of(looks)
                self._shelves[kind] = self._shelves[kind] + new if kind in self._shelves else new
            return dict(self._shelves)


def fingerprints(codes: Logits) -> list[bytes]:
    """The fingerprint of each picture whose code (N, dimensions) this is."""
    return [np.packbits(row > 0).tobytes() for row in codes]


def most_distance(dimensions: int) -> int:
    """In how many bits fingerprints by a hash of so many dimensions may differ."""
    return int(TOLERANCE * dimensions)


def distance(one: bytes, other: bytes) -> int:
    """In how many bits two fingerprints differ: in all if they are of different lengths."""
    if len(one) != len(other):
        return 8 * max(len(one), len(other))
    return int(distances(one, rows_of([other], len(other)))[0])


def distances(one: bytes, many: Bits) -> npt.NDArray[np.uint16]:
    """In how many bits a fingerprint differs from each row of ``many``, eight bytes at a time."""
    words = np.ascontiguousarray(many).view(np.uint64)
    differing = np.bitwise_count(words ^ rows_of([one], many.shape[1]).view(np.uint64))
    total: npt.NDArray[np.uint16] = np.zeros(len(many), dtype=np.uint16)
    for column in differing.T:
        total += column
    return total


def rows_of(values: Sequence[bytes], length: int) -> Bits:
    """Fingerprints of ``length`` bytes as rows (N, bytes), filled up to a multiple of eight."""
    width = -(-length // 8) * 8
    content = b"".join(value[:width].ljust(width, b"\0") for value in values)
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, width)


def _stacked(rows: Bits, more: Bits) -> Bits:
    """Both under each other, ``more`` brought to the width of ``rows``."""
    fitted = np.zeros((len(more), rows.shape[1]), dtype=np.uint8)
    shared = min(rows.shape[1], more.shape[1])
    fitted[:, :shared] = more[:, :shared]
    return np.concatenate([rows, fitted])

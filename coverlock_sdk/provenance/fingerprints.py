"""Fingerprints of pictures: the signs of a public code, compared bit by bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Bits, Logits

TOLERANCE = 0.25
"""The share of its bits in which the fingerprint of a picture may differ from the signed one."""

LONGEST = 1024
"""Bytes of a fingerprint, at most."""


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

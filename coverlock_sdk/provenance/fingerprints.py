"""Fingerprints of pictures: the 256 signs of a public hash, compared bit by bit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Bits, Logits
from coverlock_sdk.errors import ProvenanceError
from coverlock_sdk.hashing.projection import CODE_BITS

FINGERPRINT_BYTES = CODE_BITS // 8


@dataclass(frozen=True)
class Tolerance:
    """How many bits the fingerprint of a picture may differ from the signed one."""

    distance: int
    false_positives: float | None
    """The share of pairs of different photos that come as near; None where nobody measured it."""


TOLERANCES = {
    "nano": Tolerance(64, 1e-5),
    "keen": Tolerance(64, 1e-5),
}
"""Measured on photos that training leaves out, by ``coverlock bench fingerprints``."""

UNMEASURED = Tolerance(64, None)


def tolerance_of(hash: str) -> Tolerance:
    """How much the fingerprints of a hash may differ."""
    return TOLERANCES.get(hash, UNMEASURED)


def fingerprints(hash_logits: Logits) -> list[bytes]:
    """The fingerprint of each picture whose hash logits (N, 256) these are."""
    return [np.packbits(row > 0).tobytes() for row in hash_logits]


def distance(one: bytes, other: bytes) -> int:
    """In how many bits two fingerprints differ."""
    return int(distances(one, unpacked([other]))[0])


def distances(one: bytes, many: Bits) -> npt.NDArray[np.uint16]:
    """In how many bits a fingerprint differs from each of ``many`` (N, 32), eight bytes a step."""
    words = np.ascontiguousarray(many).view(np.uint64)
    differing = np.bitwise_count(words ^ unpacked([one]).view(np.uint64))
    total: npt.NDArray[np.uint16] = np.zeros(len(many), dtype=np.uint16)
    for column in differing.T:
        total += column
    return total


def unpacked(values: list[bytes]) -> Bits:
    """Fingerprints as rows of bytes (N, 32)."""
    if any(len(value) != FINGERPRINT_BYTES for value in values):
        raise ProvenanceError(f"a fingerprint has {FINGERPRINT_BYTES} bytes")
    return np.frombuffer(b"".join(values), dtype=np.uint8).reshape(-1, FINGERPRINT_BYTES)

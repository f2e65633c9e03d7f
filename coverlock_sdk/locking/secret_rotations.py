"""From the code of a picture to the bits that lock a message: a secret rotation for each message.

Every message has its own map, derived from the key. The map rotates each band of the code, turns
the result in several secret ways, the *salts*, and picks a secret subset of the numbers of each
band. Their signs, XORed with a pad, lock the message. The embedder uses the salt whose bits are
most stable on the picture, and verification tries all of them. With several salts, few released
pictures share a rotation, so an attacker needs many of them to learn it.

Without a key there is one public map: the paper's seed-determined subset.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import AnyArray, Bits, Floats, Logits
from coverlock_sdk.locking.keys import PUBLIC_KEY, Key

ROUNDS = 3
"""Sign flips, shuffle and transform; three rounds of them mix every number into every other."""

SALTS = 16
"""Rotations per message. More would make bits more stable, but larger margins also help forgers,
and the p-value pays for every salt that is tried."""

LEAST_SALTED = 28
"""Messages shorter than this have only one salt."""

SHARPNESS = 1.2
"""How much verification relies on the most stable salt staying the most stable. Chosen on photos
that training holds out."""


class SecretRotation(NamedTuple):
    """The secret rotation of one band, and its turns."""

    signs: npt.NDArray[np.float32]  # (rounds, width) of -1 and 1
    shuffles: npt.NDArray[np.int64]  # (rounds, width)
    turns: npt.NDArray[np.float32]  # (salts, width) of -1 and 1
    places: npt.NDArray[np.int64]  # (width,): the order in which numbers are taken

    @classmethod
    def of(cls, key: Key, context: str, dimensions: int, salts: int) -> SecretRotation:
        """Derive the rotation from ``key`` for ``context``; the width is the next power of two."""
        width = 1 << (dimensions - 1).bit_length()
        flips = _signs(key, f"signs/{context}", ROUNDS * width).reshape(ROUNDS, width)
        ranks = _stream(key, f"shuffles/{context}", (ROUNDS + 1) * width * 4).view(">u4")
        orders = np.argsort(ranks.reshape(ROUNDS + 1, width), axis=1, kind="stable")
        turns = _signs(key, f"turns/{context}", salts * width).reshape(salts, width)
        return cls(flips, orders[:ROUNDS], turns, orders[ROUNDS])

    def mixed(self, values: Logits) -> Logits:
        """Numbers (N, dimensions) rotated, before any turn: (N, width)."""
        count, dimensions = values.shape
        width = self.signs.shape[1]
        mixed = np.zeros((count, width), dtype=np.float32)
        mixed[:, :dimensions] = values * np.float32((width / dimensions) ** 0.5)
        for flips, order in zip(self.signs, self.shuffles, strict=True):
            mixed = _walsh_hadamard((mixed * flips).take(order, axis=1))
        return mixed

    def rotated(self, values: Logits, count: int | None = None) -> Logits:
        """Numbers (N, dimensions) rotated and turned in every way: (N, salts, width or count)."""
        turned = _walsh_hadamard(self.mixed(values)[:, None] * self.turns)
        return turned.take(self.places[:count], axis=-1)

    def taken(self, count: int) -> Logits:
        """The matrix (count, width) that gives the first ``count`` numbers from the turned code."""
        return _hadamard(self.signs.shape[1])[self.places[:count]]

    def directions(self, salts: Sequence[int], count: int, dimensions: int) -> Logits:
        """Matrices (salts, dims, count) that give the first ``count`` numbers under ``salts``."""
        rows = self.taken(count) * self.turns[list(salts), None]
        for flips, order in zip(self.signs[::-1], self.shuffles[::-1], strict=True):
            # Undo the shuffle with its inverse, which is much faster than assigning to columns.
            rows = _walsh_hadamard(rows).take(np.argsort(order), axis=-1) * flips
        scale = np.float32((self.signs.shape[1] / dimensions) ** 0.5)
        return rows[..., :dimensions].transpose(0, 2, 1) * scale


@dataclass(frozen=True, repr=False)  # never print what a key determines
class CodeMap:
    """How one message is locked under one key: rotations, salts and pads."""

    rotations: tuple[SecretRotation, ...]
    pads: Bits  # (salts, bits)
    bands: tuple[int, ...]
    """Dimensions of each band of the code."""

    @property
    def salts(self) -> int:
        """The number of salts."""
        return len(self.pads)

    @property
    def bits(self) -> int:
        """Length of a message."""
        return self.pads.shape[1]

    def counts(self) -> list[int]:
        """The number of bits from each band."""
        return [len(range(band, self.bits, len(self.bands))) for band in range(len(self.bands))]

    def seen(self, code: Logits) -> Logits:
        """The numbers (N, salts, bits) whose signs lock a message, for codes (N, dimensions).

        The bands take turns: each gets the next bit.
        """
        found = np.zeros((len(code), self.salts, self.bits), dtype=np.float32)
        parts = split_bands(code, self.bands)
        for band, (rotation, part) in enumerate(zip(self.rotations, parts, strict=True)):
            places = slice(band, None, len(self.bands))
            found[:, :, places] = rotation.rotated(part, self.counts()[band])
        return found

    def directions(self, salt: int) -> Logits:
        """The matrix (dimensions, bits) that turns a code into what ``seen`` returns for a salt."""
        columns = np.zeros((sum(self.bands), self.bits), dtype=np.float32)
        for band, rows in enumerate(np.split(columns, np.cumsum(self.bands)[:-1])):
            rows[:, band :: len(self.bands)] = self.band_directions(band, [salt])[0]
        return columns

    def band_directions(self, band: int, salts: Sequence[int]) -> Logits:
        """The same matrices for one band, under all salts: (salts, dimensions, bits)."""
        return self.rotations[band].directions(salts, self.counts()[band], self.bands[band])

    def stablest(self, seen: Logits) -> int:
        """The salt whose numbers (salts, bits) are furthest from changing sign."""
        return int(np.argmax(_stability(seen)))

    def tries(self, seen: Logits) -> Floats:
        """How many trials each salt costs: stabler salts cost fewer. The inverses add up to one."""
        if self.salts == 1:
            return np.ones(1)
        stability = _stability(seen).astype(np.float64)
        spread = max(float(stability.std()), np.finfo(np.float32).tiny)
        scores = SHARPNESS * np.sqrt(2 * np.log(self.salts)) * stability / spread
        likely = np.exp(scores - scores.max())
        tries: Floats = likely.sum() / np.maximum(likely, 1e-30)
        return tries


@lru_cache(maxsize=64)
def code_map(key: Key | None, context: str, bits: int, bands: tuple[int, ...]) -> CodeMap:
    """The map that ``key`` gives one message, or the public map."""
    if key is None:
        context, salts = "public", 1
        pads = np.zeros((1, bits), dtype=np.uint8)
    else:
        salts = SALTS if bits >= LEAST_SALTED else 1
        width = -(-bits // 8)
        stream = _stream(key, f"pads/{context}", salts * width).reshape(salts, width)
        pads = np.unpackbits(stream, axis=1)[:, :bits]
    rotations = tuple(
        SecretRotation.of(key or PUBLIC_KEY, f"{band}/{context}", dimensions, salts)
        for band, dimensions in enumerate(bands)
    )
    return CodeMap(rotations, pads, bands)


@dataclass(frozen=True, repr=False)
class LongCode:
    """The long code that a registry remembers: signs of all bands under a separate rotation.

    Hardening never uses its directions.
    """

    rotations: tuple[SecretRotation, ...]
    bands: tuple[int, ...]
    """Dimensions of each band of the code."""
    widths: tuple[int, ...]
    """Bits that each band gives."""

    @classmethod
    @lru_cache(maxsize=16)
    def of(cls, key: Key, bands: tuple[int, ...]) -> LongCode:
        """The map of ``key``."""
        rotations = tuple(
            SecretRotation.of(key, f"{band}/registry", size, 1) for band, size in enumerate(bands)
        )
        return cls(rotations, bands, tuple(len(rotation.places) for rotation in rotations))

    def bits(self, codes: Logits) -> Bits:
        """The long codes (N, widths) of codes (N, dimensions)."""
        pairs = zip(self.rotations, split_bands(codes, self.bands), strict=True)
        rotated = [rotation.rotated(part)[:, 0] for rotation, part in pairs]
        return (np.concatenate(rotated, axis=1) > 0).astype(np.uint8)

    def likeness(self, code: Logits, remembered: Bits) -> Floats:
        """The share of each band that agrees with each record: (records, bands)."""
        same = split_bands(self.bits(code) == remembered, self.widths)
        return np.stack([part.mean(axis=1) for part in same], axis=1)

    @cached_property
    def directions(self) -> list[Logits]:
        """For each band, the matrix (dimensions, width) that turns a code into its long code."""
        triples = zip(self.rotations, self.bands, self.widths, strict=True)
        return [rotation.directions([0], width, size)[0] for rotation, size, width in triples]


def split_bands(values: AnyArray, bands: Sequence[int]) -> list[AnyArray]:
    """Codes (N, dimensions) cut into bands of these sizes; the highest bands may be missing."""
    return np.split(values, np.cumsum(bands)[:-1], axis=1)


def _stability(seen: Logits) -> Logits:
    total: Logits = np.sqrt(np.abs(seen)).sum(axis=-1)
    return total


def _walsh_hadamard(values: Logits) -> Logits:
    """The orthonormal transform of the last axis, as two products with small matrices."""
    width = values.shape[-1]
    rows = 1 << (width.bit_length() // 2)
    square = values.reshape(-1, rows, width // rows)
    mixed: Logits = np.matmul(np.matmul(_hadamard(rows), square), _hadamard(width // rows))
    return mixed.reshape(values.shape)


@lru_cache(maxsize=16)
def _hadamard(width: int) -> npt.NDArray[np.float32]:
    matrix = np.ones((1, 1), dtype=np.float32)
    while len(matrix) < width:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix * np.float32(width**-0.5)


def _signs(key: Key, label: str, count: int) -> npt.NDArray[np.float32]:
    flips = np.unpackbits(_stream(key, label, -(-count // 8)))[:count]
    return 1 - 2 * flips.astype(np.float32)


def _stream(key: Key, label: str, count: int) -> npt.NDArray[np.uint8]:
    seed = key.derive(f"map/{label}")
    return np.frombuffer(hashlib.shake_128(seed).digest(count), dtype=np.uint8)

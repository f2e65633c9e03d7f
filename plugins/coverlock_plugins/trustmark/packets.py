"""TrustMark's own payloads: data, a BCH code, and four bits that name the code.

A watermark without a lock may carry such a packet, so that what TrustMark wrote is read here and
the other way round. Under a lock the payload is the message XOR the picture's code, and no packet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coverlock_plugins.trustmark.bch import Bch
from coverlock_sdk.arrays import Bits
from coverlock_sdk.errors import MessageError

PACKET_BITS = 100
VERSION_BITS = 4
CHARACTER_BITS = 7


@dataclass(frozen=True)
class Schema:
    """One of TrustMark's encodings, and the number that stands for it in a packet."""

    name: str
    version: int
    errors: int
    """Wrong bits that it corrects."""

    @property
    def code(self) -> Bch:
        """The code of the packet's first 96 bits."""
        return Bch(self.errors)

    @property
    def capacity(self) -> int:
        """How many bits of data it carries."""
        return PACKET_BITS - VERSION_BITS - self.code.check_bits


SCHEMAS = {
    schema.name: schema
    for schema in (
        Schema("BCH_SUPER", 0, 8),
        Schema("BCH_5", 1, 5),
        Schema("BCH_4", 2, 4),
        Schema("BCH_3", 3, 3),
    )
}


@dataclass(frozen=True)
class Packet:
    """What was read from a payload."""

    data: Bits
    schema: str
    corrected: int
    """Bits that were wrong."""

    @property
    def text(self) -> str:
        """The data as TrustMark's 7-bit characters."""
        whole = len(self.data) // CHARACTER_BITS * CHARACTER_BITS
        rows = self.data[:whole].reshape(-1, CHARACTER_BITS)
        values = rows @ (1 << np.arange(CHARACTER_BITS - 1, -1, -1))
        return "".join(map(chr, values)).rstrip("\0")


def pack(data: str | Sequence[int] | Bits, schema: str = "BCH_5") -> Bits:
    """The payload (100,) that carries text (7-bit characters) or bits under ``schema``."""
    if schema not in SCHEMAS:
        raise MessageError(f"there is no schema '{schema}': use one of {', '.join(SCHEMAS)}")
    kind = SCHEMAS[schema]
    bits = _text_bits(data) if isinstance(data, str) else np.asarray(data, np.uint8).ravel()
    if len(bits) > kind.capacity or bits.max(initial=0) > 1:
        raise MessageError(
            f"'{schema}' carries {kind.capacity} bits, or {kind.capacity // CHARACTER_BITS} "
            f"characters, and this are {len(bits)} bits: shorten it or take another schema"
        )
    filled = np.zeros(kind.capacity, np.uint8)
    filled[: len(bits)] = bits
    version = np.array([int(bit) for bit in f"{kind.version:0{VERSION_BITS}b}"], np.uint8)
    return np.concatenate([filled, kind.code.encode(_whole_bytes(filled)), version])


def unpack(payload: npt.ArrayLike) -> Packet | None:
    """The packet in a payload (100,) of bits or logits, or None if there is none.

    The last two bits say which schema it is. They are not protected, so the others are tried too.
    """
    bits = (np.asarray(payload).ravel() > 0).astype(np.uint8)
    if len(bits) != PACKET_BITS:
        raise MessageError(f"a packet has {PACKET_BITS} bits, and this has {len(bits)}")
    said = 2 * bits[-2] + bits[-1]
    for schema in sorted(SCHEMAS.values(), key=lambda schema: schema.version != said):
        data, check = np.split(bits[:-VERSION_BITS], [schema.capacity])
        padded = _whole_bytes(data)
        corrected = schema.code.correct(np.concatenate([padded, check]))
        if corrected is not None and not corrected[schema.capacity : len(padded)].any():
            found = np.delete(corrected, range(schema.capacity, len(padded)))
            wrong = int((found != bits[:-VERSION_BITS]).sum())
            return Packet(found[: schema.capacity], schema.name, wrong)
    return None


def _whole_bytes(data: Bits) -> Bits:
    """Data as it is encoded: filled with zeros to whole bytes, which are not in the packet."""
    return np.append(data, np.zeros(-len(data) % 8, np.uint8))


def _text_bits(text: str) -> Bits:
    beyond = [character for character in text if ord(character) > 127]
    if beyond:
        raise MessageError(f"TrustMark's text is 7-bit ASCII, which has no '{beyond[0]}'")
    codes = "".join(f"{ord(character):0{CHARACTER_BITS}b}" for character in text)
    return np.array([int(bit) for bit in codes], np.uint8)

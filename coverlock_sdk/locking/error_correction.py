"""Messages that are read rather than checked: an identifier in an error-correcting code.

Verification asks "is it this message?" and needs no code. Where the identifier itself must be
read off a picture, ``Framing`` spends some of the bits on a BCH code that repairs misread ones.
"""

from __future__ import annotations

import threading
from types import ModuleType

import numpy as np
import numpy.typing as npt

from coverlock_sdk.errors import MessageError, needs

Bits = npt.NDArray[np.uint8]

DEGREES = range(4, 9)
"""BCH codes of length 2^4 - 1 to 2^8 - 1 are considered."""


class Framing:
    """Fixed-length framing of ``payload_bits`` inside messages of ``bits`` bits.

    The BCH code that corrects most is used, shortened to the payload; bits left over repeat the
    codeword from its start. ``corrects`` says how many misread bits are always repaired.
    """

    def __init__(self, bits: int, payload_bits: int) -> None:
        self.bits = bits
        self.payload_bits = payload_bits
        self._code = _strongest_code(bits, payload_bits)
        self.corrects = self._code.corrects
        self._positions = np.arange(bits) % (payload_bits + self._code.checks)

    def __repr__(self) -> str:
        return (
            f"Framing(bits={self.bits}, payload_bits={self.payload_bits}, corrects={self.corrects})"
        )

    def encode(self, payload: bytes | int) -> Bits:
        """The message that carries ``payload``: bytes of exactly its length, or a number."""
        value = int.from_bytes(payload, "big") if isinstance(payload, bytes) else payload
        if isinstance(payload, bytes) and 8 * len(payload) != self.payload_bits:
            raise MessageError(
                f"the payload has {8 * len(payload)} bits, but this framing carries "
                f"{self.payload_bits}"
            )
        if not 0 <= value < 1 << self.payload_bits:
            raise MessageError(f"the number {value} does not fit into {self.payload_bits} bits")
        length = self.payload_bits + self._code.checks
        word = f"{self._code.encode(value):0{length}b}"
        return np.array([int(bit) for bit in word], dtype=np.uint8)[self._positions]

    def decode(self, logits: npt.ArrayLike) -> int | None:
        """The payload nearest to the message ``logits``, or None when too many bits are wrong."""
        values = np.asarray(logits, dtype=np.float64).ravel()
        if values.size != self.bits:
            raise MessageError(f"{values.size} logits do not fit a framing of {self.bits} bits")
        summed = np.zeros(self.payload_bits + self._code.checks)
        np.add.at(summed, self._positions, values)
        return self._code.decode([int(value > 0) for value in summed])


class _BchCode:
    """A binary BCH code, as the binary words of a Reed-Solomon code with the same roots.

    That makes the decoder of any Reed-Solomon library its decoder, one symbol a bit.
    """

    def __init__(self, degree: int, corrects: int, checks: int) -> None:
        self.corrects = corrects
        self.checks = checks
        self._field = _Field(degree)
        with self._field as rs:
            generator = [1]
            for root in _roots(degree, corrects):
                generator = rs.gf_poly_mul(generator, [1, rs.gf_pow(2, root)])
        self._generator = int("".join(map(str, generator)), 2)

    def encode(self, value: int) -> int:
        """The codeword: ``value``, followed by the remainder that makes it a multiple."""
        remainder = value << self.checks
        for shift in range(remainder.bit_length() - self._generator.bit_length(), -1, -1):
            if remainder >> (shift + self.checks) & 1:
                remainder ^= self._generator << shift
        return value << self.checks | remainder

    def decode(self, word: list[int]) -> int | None:
        """The value of the nearest codeword, or None when none is near enough."""
        with self._field as rs:
            try:
                data, checks, _ = rs.rs_correct_msg(bytearray(word), 2 * self.corrects, fcr=1)
            except rs.ReedSolomonError:
                return None
        bits = [*data, *checks]
        if max(bits) > 1:  # repaired into a word of the larger code that is not binary
            return None
        return int("".join(map(str, bits[: len(word) - self.checks])), 2)


class _Field:
    """reedsolo set to the field of 2^degree elements; its tables are global, hence the lock."""

    _lock = threading.Lock()

    def __init__(self, degree: int) -> None:
        self._reedsolo = _reedsolo()
        self._degree = degree
        self._polynomial = self._reedsolo.find_prime_polys(c_exp=degree, single=True)
        if isinstance(self._polynomial, list):
            self._polynomial = self._polynomial[0]

    def __enter__(self) -> ModuleType:
        self._lock.acquire()
        self._reedsolo.init_tables(self._polynomial, c_exp=self._degree)
        return self._reedsolo

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _strongest_code(bits: int, payload_bits: int) -> _BchCode:
    """The BCH code that corrects most, among those that fit ``payload_bits`` into ``bits``."""
    fitting = [
        (corrects, -checks, degree)
        for degree in DEGREES
        for corrects in range(1, 2 ** (degree - 2))
        if payload_bits + (checks := len(_roots(degree, corrects))) <= min(bits, 2**degree - 1)
    ]
    if not fitting:
        raise MessageError(
            f"no BCH code fits {payload_bits} payload bits into {bits} message bits: "
            "use a shorter payload"
        )
    corrects, negative_checks, degree = max(fitting)
    return _BchCode(degree, corrects, -negative_checks)


def _roots(degree: int, corrects: int) -> list[int]:
    """Exponents of the generator's roots: 1 ... 2t and their conjugates (cyclotomic cosets)."""
    length = 2**degree - 1
    return sorted(
        {root * 2**power % length for root in range(1, 2 * corrects, 2) for power in range(degree)}
    )


def _reedsolo() -> ModuleType:
    with needs("an error-correcting message", "reedsolo", "ecc"):
        import reedsolo
    module: ModuleType = reedsolo
    return module

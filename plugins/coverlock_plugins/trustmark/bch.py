"""BCH codes of length 127, the ones in TrustMark's packets.

The maintained libraries are under the GPL (bchlib) or bring a compiler (galois). A code of this
size is small enough to write down: arithmetic in GF(2^7), division by the generator to encode, and
Berlekamp-Massey to decode. Polynomials over GF(2) are integers, the highest power first in bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from coverlock_sdk.arrays import Bits

DEGREE = 7
LENGTH = 2**DEGREE - 1
FIELD = 0b10001001
"""x^7 + x^3 + 1, which generates the field."""


def _powers() -> list[int]:
    powers, value = [], 1
    for _ in range(LENGTH):
        powers.append(value)
        value <<= 1
        if value >> DEGREE:
            value ^= FIELD
    return powers


POWER = _powers()
LOGARITHM = {value: exponent for exponent, value in enumerate(POWER)}


def _times(one: int, other: int) -> int:
    if not one or not other:
        return 0
    return POWER[(LOGARITHM[one] + LOGARITHM[other]) % LENGTH]


def _inverse(value: int) -> int:
    return POWER[-LOGARITHM[value] % LENGTH]


@dataclass(frozen=True)
class Bch:
    """The code that corrects ``errors`` wrong bits, shortened to as much data as it is given."""

    errors: int

    @cached_property
    def generator(self) -> int:
        """The product of the minimal polynomials of the first 2 t powers."""
        generator, done = 1, set[int]()
        for exponent in range(1, 2 * self.errors, 2):
            conjugates = {exponent * 2**k % LENGTH for k in range(DEGREE)}
            if not conjugates & done:
                generator = _product(generator, _minimal(conjugates))
                done |= conjugates
        return generator

    @property
    def check_bits(self) -> int:
        """How many bits are added to the data."""
        return self.generator.bit_length() - 1

    def encode(self, data: Bits) -> Bits:
        """The check bits of ``data``."""
        remainder = _number(data) << self.check_bits
        while remainder.bit_length() > self.check_bits:
            remainder ^= self.generator << (remainder.bit_length() - self.generator.bit_length())
        return np.array([int(b) for b in f"{remainder:0{self.check_bits}b}"], np.uint8)

    def correct(self, received: Bits) -> Bits | None:
        """Data and check bits with up to ``errors`` wrong ones put right, or None."""
        last = len(received) - 1
        ones = [last - position for position in np.flatnonzero(received)]
        syndromes = [
            _sum(POWER[exponent * power % LENGTH] for power in ones)
            for exponent in range(1, 2 * self.errors + 1)
        ]
        if not any(syndromes):
            return received.copy()
        locator = _locator(syndromes)
        roots = [power for power in range(LENGTH) if not _value(locator, POWER[-power % LENGTH])]
        if len(locator) - 1 > self.errors or len(roots) != len(locator) - 1 or max(roots) > last:
            return None
        corrected = received.copy()
        corrected[[last - power for power in roots]] ^= 1
        return corrected


def _locator(syndromes: Sequence[int]) -> list[int]:
    """The shortest polynomial whose roots locate the errors (Berlekamp-Massey), lowest first."""
    locator, previous = [1], [1]
    length, since, discrepancy_then = 0, 1, 1
    for step, syndrome in enumerate(syndromes):
        known = zip(locator[1 : length + 1], reversed(syndromes[:step]), strict=False)
        discrepancy = syndrome ^ _sum(_times(c, s) for c, s in known)
        if not discrepancy:
            since += 1
            continue
        factor = _times(discrepancy, _inverse(discrepancy_then))
        shifted = [0] * since + [_times(factor, c) for c in previous]
        size = max(len(locator), len(shifted))
        padded = [p + [0] * (size - len(p)) for p in (locator, shifted)]
        longer = [a ^ b for a, b in zip(*padded, strict=True)]
        if 2 * length <= step:
            previous, length, since, discrepancy_then = locator, step + 1 - length, 1, discrepancy
        else:
            since += 1
        locator = longer
    while not locator[-1]:
        locator.pop()
    return locator


def _minimal(exponents: set[int]) -> int:
    """The polynomial over GF(2) whose roots are these powers."""
    coefficients = [1]  # lowest first
    for exponent in exponents:
        root = POWER[exponent]
        shifted, scaled = [0, *coefficients], [*(_times(root, c) for c in coefficients), 0]
        coefficients = [a ^ b for a, b in zip(shifted, scaled, strict=True)]
    return sum(c << power for power, c in enumerate(coefficients))


def _product(one: int, other: int) -> int:
    return _sum(one << power for power in range(other.bit_length()) if other >> power & 1)


def _value(polynomial: Sequence[int], at: int) -> int:
    value = 0
    for coefficient in reversed(polynomial):
        value = _times(value, at) ^ coefficient
    return value


def _sum(values: Iterable[int]) -> int:
    total = 0
    for value in values:
        total ^= value
    return total


def _number(bits: Bits) -> int:
    return int("".join(map(str, bits.tolist())), 2)

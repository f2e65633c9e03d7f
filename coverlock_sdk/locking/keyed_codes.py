"""From hash logits to the code that locks a message: one map without a secret, many with one.

A *plain* map selects, orders and masks hash bits once and for all. Without a key that is the
paper's seed-determined subset. With a key of scheme 1 it is secret, but a static map gives itself
away: some twenty released pictures of one identifier are enough to learn it.

A *salted* map (scheme 2) rotates all 256 logits by a secret rotation of key and message, then
offers many selections and pads, one a salt. A picture is marked under one salt of many, so few
released pictures share a map. The embedder takes the salt whose bits are the stablest on the
picture. The verifier expects that: a salt counts as the fewer tries the stabler it is on the
picture at hand, and thousands of salts cost little evidence.

Everything is derived by HMAC-SHA256, expanded by SHAKE-128, and computed by additions alone, so
that it is the same on every platform.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Bits, Floats, Images, Logits
from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.locking.keys import Key, Selection, bit_mask, bit_selection
from coverlock_sdk.threads import one_thread

GROUP = 8
"""Rotated logits that are selected together: a byte, so that tables can search all salts."""

GROUPS = CODE_BITS // GROUP
ROUNDS = 3
"""Sign flips, shuffle and transform; three rounds of them mix every logit into every other."""

SHARPNESS = 1.2
"""How far verification relies on the stablest salt still being the stablest: 1 is the least at
which it expects few salts of many. Chosen on photos that training holds out."""

SHORTLIST = 2
"""Salts whose exact p-value is computed, of all that a picture is searched for."""


class CodeMap(Protocol):
    """The ways in which one message may be locked: one a salt."""

    @property
    def salts(self) -> int:
        """How many ways there are."""
        ...

    def selected(self, hash_logits: Logits, salt: int) -> Logits:
        """The logits (N, bits) whose signs lock a message under ``salt``."""
        ...

    def mask(self, salt: int) -> Bits:
        """The bits (bits,) XORed onto those signs."""
        ...

    def search(self, payload: Floats, hashed: Floats, message: Bits) -> list[tuple[float, int]]:
        """The salts under which a picture agrees best with ``message``: (agreement, salt) each.

        ``payload`` (bits,) and ``hashed`` (256,), which is what ``seen`` shows, say from -1 to 1
        what decoder and hash see, and how surely.
        """
        ...

    def stablest(self, seen: Logits) -> int:
        """The salt to mark a picture under, whose ``seen`` logits (256,) are given."""
        ...

    def tries(self, seen: Logits, salts: Sequence[int]) -> list[float]:
        """How many tries a match counts as, for each of ``salts``.

        The inverses of those of all salts add up to one.
        """
        ...

    def seen(self, hash_logits: Logits) -> Logits:
        """The logits (N, 256) that selections are made from."""
        ...


@dataclass(frozen=True, repr=False)  # what a key determines is not printed
class PlainMap:
    """One selection and one mask: without a key, and keys of scheme 1."""

    selection: Selection
    bits: Bits
    salts: int = 1

    @classmethod
    def of(cls, key: Key | None, bits: int) -> PlainMap:
        """The map of ``key``, or the public one."""
        return cls(bit_selection(key, CODE_BITS, bits), bit_mask(key, bits))

    def seen(self, hash_logits: Logits) -> Logits:
        """The logits as they are."""
        return hash_logits

    def selected(self, hash_logits: Logits, salt: int) -> Logits:
        """The selected logits (N, bits)."""
        return hash_logits[:, self.selection]

    def mask(self, salt: int) -> Bits:
        """The key's mask; all zero without a key."""
        return self.bits

    def search(self, payload: Floats, hashed: Floats, message: Bits) -> list[tuple[float, int]]:
        """The only salt there is."""
        agreement = payload * hashed[self.selection] * (1 - 2.0 * (message ^ self.bits))
        return [(float(agreement.sum()), 0)]

    def stablest(self, seen: Logits) -> int:
        """The only salt there is."""
        return 0

    def tries(self, seen: Logits, salts: Sequence[int]) -> list[float]:
        """One: there is nothing to choose."""
        return [1.0] * len(salts)


@dataclass(frozen=True, repr=False)
class SaltedMap:
    """A secret rotation, and for each salt a selection of groups and a pad."""

    signs: Images  # (ROUNDS, 256) of -1 and 1
    shuffles: Selection  # (ROUNDS, 256)
    groups: npt.NDArray[np.uint8]  # (bytes, salts): which eight rotated logits lock each byte
    pads: npt.NDArray[np.uint8]  # (bytes, salts)
    bits: int

    @classmethod
    def of(cls, key: Key, context: str, bits: int, salts: int) -> SaltedMap:
        """The map of ``key`` for one ``context``: an identifier, or what stands for one."""
        width = -(-bits // GROUP)
        flips = np.unpackbits(_stream(key, f"signs/{context}", ROUNDS * GROUPS))
        ranks = _stream(key, f"shuffles/{context}", ROUNDS * CODE_BITS * 4).view(">u4")
        pads = _stream(key, f"pads/{context}", width * salts).reshape(width, salts)
        return cls(
            signs=(1 - 2 * flips.astype(np.float32)).reshape(ROUNDS, CODE_BITS),
            shuffles=np.argsort(ranks.reshape(ROUNDS, CODE_BITS), axis=1, kind="stable"),
            groups=_group_table(key, width, salts),
            pads=pads,
            bits=bits,
        )

    @property
    def salts(self) -> int:
        """How many ways there are."""
        return self.pads.shape[1]

    def seen(self, hash_logits: Logits) -> Logits:
        """The logits (N, 256) rotated: of the same length, each a mixture of all."""
        return _rotated(hash_logits, self.signs[:, None], self.shuffles[:, None])

    def selected(self, hash_logits: Logits, salt: int) -> Logits:
        """The rotated logits (N, bits) of the salt's groups."""
        return self.seen(hash_logits)[:, self.places(salt)]

    def mask(self, salt: int) -> Bits:
        """The salt's pad."""
        return np.unpackbits(self.pads[:, salt])[: self.bits]

    def search(self, payload: Floats, hashed: Floats, message: Bits) -> list[tuple[float, int]]:
        """The few salts with the largest sum of signed agreements, over all salts.

        For each byte of the payload, each group and each value of a pad, a table holds what the
        byte would add; a salt's sum is then one look-up a byte.
        """
        width = len(self.pads)
        wanted = np.zeros(width * GROUP)
        wanted[: self.bits] = payload * (1 - 2.0 * message)
        pairs = wanted.reshape(width, 1, GROUP) * hashed.reshape(1, GROUPS, GROUP)
        with one_thread:
            tables = pairs.reshape(-1, GROUP).astype(np.float32) @ _BYTE_SIGNS
        total = np.zeros(self.salts, dtype=np.float32)
        for table, groups, pads in zip(
            tables.reshape(width, -1), self.groups, self.pads, strict=True
        ):
            total += table.take(groups.astype(np.int64) * 256 + pads)
        count = min(SHORTLIST, self.salts)
        return [(float(total[salt]), int(salt)) for salt in np.argpartition(total, -count)[-count:]]

    def stablest(self, seen: Logits) -> int:
        """The salt whose bits are the stablest."""
        return int(np.argmax(self._stability(seen)))

    def tries(self, seen: Logits, salts: Sequence[int]) -> list[float]:
        """The fewer, the likelier it is that a salt was the stablest before any distortion.

        That likelihood is a softmax of stabilities. In units of their spread over many salts, the
        largest is about the root of twice the logarithm of their number.
        """
        if self.salts == 1:
            return [1.0] * len(salts)
        stability = self._stability(seen).astype(np.float64)
        spread = max(float(stability.std()), np.finfo(np.float32).tiny)
        scores = SHARPNESS * np.sqrt(2 * np.log(self.salts)) * stability / spread
        total = float(np.exp(scores - scores.max()).sum())
        return [total * float(np.exp(scores.max() - scores[salt])) for salt in salts]

    def _stability(self, seen: Logits) -> Images:
        """How far the bits of each salt are from turning over, in sum."""
        margins = np.sqrt(np.abs(seen)).reshape(GROUPS, GROUP).sum(axis=1).astype(np.float32)
        total: Images = np.zeros(self.salts, dtype=np.float32)
        for groups in self.groups:
            total += margins.take(groups)
        return total

    def places(self, salt: int) -> Selection:
        """Which of the rotated logits the salt selects, in the order of the message's bits."""
        first = GROUP * self.groups[:, salt].astype(np.int64)
        places: Selection = (first[:, None] + np.arange(GROUP)).ravel()
        return places[: self.bits]


def seen_by(maps: Sequence[SaltedMap], hash_logits: Logits) -> Logits:
    """What each of several maps shows of one picture (1, 256): (maps, 256), in one go."""
    signs, shuffles = (
        np.stack([getattr(one, part) for one in maps], axis=1) for part in ("signs", "shuffles")
    )
    return _rotated(hash_logits, signs, shuffles)


def salt_count(bits: int) -> int:
    """How many salts a message of ``bits`` bits is locked under; see docs/statistics.md.

    It depends on the length alone: who embeds and who verifies must agree on it.
    """
    exponents = {128: 16, 96: 12, 28: 8}
    return 2 ** next((exponent for least, exponent in exponents.items() if bits >= least), 0)


@lru_cache(maxsize=16)
def salted_map(key: Key, context: str, bits: int, salts: int) -> SaltedMap:
    """``SaltedMap.of``, kept for the messages that were asked for last."""
    return SaltedMap.of(key, context, bits, salts)


@lru_cache(maxsize=16)
def _group_table(key: Key, width: int, salts: int) -> npt.NDArray[np.uint8]:
    """For each salt a secret order of the groups, of which the first ``width`` are used."""
    ranks = _stream(key, "groups", salts * GROUPS * 2).view(">u2").reshape(salts, GROUPS)
    orders = np.argsort(ranks, axis=1, kind="stable").astype(np.uint8)
    return np.ascontiguousarray(orders[:, :width].T)


def _rotated(logits: Logits, signs: Images, shuffles: Selection) -> Logits:
    """Logits (N, 256) under rotations (ROUNDS, N, 256); one of either fits all of the other."""
    for flips, order in zip(signs, shuffles, strict=True):
        flipped = logits * flips
        logits = _walsh_hadamard(
            flipped[:, order[0]] if len(order) == 1 else np.take_along_axis(flipped, order, axis=1)
        )
    return logits


def _walsh_hadamard(values: Logits) -> Logits:
    """The orthonormal transform of the last axis, by sums and differences in a fixed order."""
    shape, span = values.shape, 1
    while span < CODE_BITS:
        pairs = values.reshape(len(values), -1, 2, span)
        mixed = np.empty_like(pairs)
        np.add(pairs[:, :, 0], pairs[:, :, 1], out=mixed[:, :, 0])
        np.subtract(pairs[:, :, 0], pairs[:, :, 1], out=mixed[:, :, 1])
        values = mixed.reshape(shape)
        span *= 2
    return values * np.float32(CODE_BITS**-0.5)  # a power of two, so that scaling is exact


def _stream(key: Key, label: str, count: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(_expanded(key.derive(label.encode()), count), dtype=np.uint8)


def _expanded(seed: bytes, count: int) -> bytes:
    return hashlib.shake_128(seed).digest(count)


_BYTE_SIGNS: Images = 1 - 2 * np.unpackbits(
    np.arange(256, dtype=np.uint8)[:, None], axis=1
).T.astype(np.float32)
"""(8, 256): what each bit of each byte value multiplies an agreement by."""

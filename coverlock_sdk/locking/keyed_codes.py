"""From hash logits to the code that locks a message: one map without a secret, many with one.

A *plain* map selects, orders and masks hash bits once and for all. Without a key that is the
paper's seed-determined subset. With a key of scheme 1 it is secret, but a static map gives itself
away: some twenty released pictures of one identifier are enough to learn it.

A *salted* map (scheme 2) rotates all 256 logits by a secret rotation of key and message, turns
them further in several secret ways, then offers many selections and pads, one a salt. A picture is
marked under one salt of many, so few released pictures share a map. The embedder takes the salt
whose bits are the stablest on the picture. The verifier expects that: a salt counts as the fewer
tries the stabler it is on the picture at hand, and thousands of salts cost little evidence.

Turns are there for hardened pictures. Hardening moves a picture along a few of the directions that
its salt selects, and whoever also has the original sees that. With one rotation for all salts, a
thousand such pictures give all its directions away.

Everything is derived by HMAC-SHA256, expanded by SHAKE-128, and computed by additions alone, so
that it is the same on every platform.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

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

TURNS = 16
"""Rotations that the salts of a message are spread over; see docs/threat-model.md."""

SHARPNESS = 1.2
"""How far verification relies on the stablest salt still being the stablest: 1 is the least at
which it expects few salts of many. Chosen on photos that training holds out."""

MANY_SALTS = 1024
"""More salts than these are searched by tables."""

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

    def search(self, payload: Floats, hashed: Logits, message: Bits) -> list[tuple[float, int]]:
        """The salts under which a picture agrees best with ``message``: (agreement, salt) each.

        ``payload`` (bits,) and ``hashed`` (places,), which is what ``seen`` shows, say from -1 to
        1 what decoder and hash see, and how surely.
        """
        ...

    def stablest(self, seen: Logits) -> int:
        """The salt to mark a picture under, given its ``seen`` logits (N, places).

        The first row is the picture as it is, others are how it may come back.
        """
        ...

    def tries(self, seen: Logits, salts: Sequence[int]) -> list[float]:
        """How many tries a match counts as, for each of ``salts``.

        The inverses of those of all salts add up to one.
        """
        ...

    def seen(self, hash_logits: Logits) -> Logits:
        """The logits (N, places) that selections are made from."""
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

    def search(self, payload: Floats, hashed: Logits, message: Bits) -> list[tuple[float, int]]:
        """The only salt there is."""
        agreement = payload * hashed[self.selection] * (1 - 2.0 * (message ^ self.bits))
        return [(float(agreement.sum()), 0)]

    def stablest(self, seen: Logits) -> int:
        """The only salt there is."""
        return 0

    def tries(self, seen: Logits, salts: Sequence[int]) -> list[float]:
        """One: there is nothing to choose."""
        return [1.0] * len(salts)


class Rotation(NamedTuple):
    """Rounds of sign flips, a shuffle and a transform."""

    signs: Images  # (rounds, 256) of -1 and 1
    shuffles: Selection  # (rounds, 256)

    @classmethod
    def of(cls, key: Key, context: str, rounds: int) -> Rotation:
        """What ``key`` derives for ``context``."""
        flips = np.unpackbits(_stream(key, f"signs/{context}", rounds * GROUPS))
        ranks = _stream(key, f"shuffles/{context}", rounds * CODE_BITS * 4).view(">u4")
        return cls(
            (1 - 2 * flips.astype(np.float32)).reshape(rounds, CODE_BITS),
            np.argsort(ranks.reshape(rounds, CODE_BITS), axis=1, kind="stable"),
        )


@dataclass(frozen=True, repr=False)
class SaltedMap:
    """A secret rotation turned in several ways, and for each salt a selection and a pad."""

    rotation: Rotation
    turns: Rotation
    """One round each: the logits of a salt are those of its turn."""
    groups: npt.NDArray[np.uint16]  # (bytes, salts): which eight turned logits lock each byte
    pads: npt.NDArray[np.uint8]  # (bytes, salts)
    bits: int

    @classmethod
    def of(cls, key: Key, context: str, bits: int, salts: int) -> SaltedMap:
        """The map of ``key`` for one ``context``: an identifier, or what stands for one."""
        width = -(-bits // GROUP)
        pads = _stream(key, f"pads/{context}", width * salts).reshape(width, salts)
        return cls(
            rotation=Rotation.of(key, context, ROUNDS),
            turns=_turns(key, min(TURNS, salts)),
            groups=_group_table(key, width, salts),
            pads=pads,
            bits=bits,
        )

    @property
    def salts(self) -> int:
        """How many ways there are."""
        return self.pads.shape[1]

    def seen(self, hash_logits: Logits) -> Logits:
        """The logits (N, turns * 256) rotated and turned in every way, each a mixture of all."""
        return _turned(_rotated(hash_logits, self.rotation), self.turns)

    def selected(self, hash_logits: Logits, salt: int) -> Logits:
        """The rotated and turned logits (N, bits) of the salt's groups."""
        turn, places = self.places(salt)[0] // CODE_BITS, self.places(salt) % CODE_BITS
        own = Rotation(self.turns.signs[turn, None], self.turns.shuffles[turn, None])
        return _rotated(_rotated(hash_logits, self.rotation), own)[:, places]

    def mask(self, salt: int) -> Bits:
        """The salt's pad."""
        return np.unpackbits(self.pads[:, salt])[: self.bits]

    def search(self, payload: Floats, hashed: Logits, message: Bits) -> list[tuple[float, int]]:
        """The few salts with the largest sum of signed agreements, over all salts."""
        width = len(self.pads)
        wanted = np.zeros(width * GROUP, dtype=np.float32)
        wanted[: self.bits] = payload * (1 - 2.0 * message)
        search = self._by_tables if self.salts > MANY_SALTS else self._by_groups
        total = search(wanted.reshape(width, GROUP), hashed.reshape(-1, GROUP))
        count = min(SHORTLIST, self.salts)
        return [(float(total[salt]), int(salt)) for salt in np.argpartition(total, -count)[-count:]]

    def _by_groups(self, wanted: Images, hashed: Images) -> Images:
        """What all bytes (bytes, 8) add up to under every salt, by the groups (groups, 8)."""
        signed = hashed.take(self.groups, axis=0)
        signed *= _BYTE_SIGNS.take(self.pads, axis=0)
        total: Images = np.einsum("bsk,bk->s", signed, wanted)
        return total

    def _by_tables(self, wanted: Images, hashed: Images) -> Images:
        """The same by tables of what each value of a pad makes of a group: one look-up a byte."""
        with one_thread:
            tables = (wanted[:, None] * hashed).reshape(-1, GROUP) @ _BYTE_SIGNS.T
        total: Images = np.zeros(self.salts, dtype=np.float32)
        for table, groups, pads in zip(
            tables.reshape(len(wanted), -1), self.groups, self.pads, strict=True
        ):
            total += table.take(groups.astype(np.int64) * 256 + pads)
        return total

    def stablest(self, seen: Logits) -> int:
        """The salt whose bits are the stablest; bits that turn over in a row count against it."""
        steady = seen * np.sign(seen[0])
        roots = np.copysign(np.sqrt(np.abs(steady)), steady).sum(axis=0)
        return int(np.argmax(self._by_salt(roots)))

    def tries(self, seen: Logits, salts: Sequence[int]) -> list[float]:
        """The fewer, the likelier it is that a salt was the stablest before any distortion.

        That likelihood is a softmax of stabilities. In units of their spread over many salts, the
        largest is about the root of twice the logarithm of their number.
        """
        if self.salts == 1:
            return [1.0] * len(salts)
        stability = self._by_salt(np.sqrt(np.abs(seen))).astype(np.float64)
        spread = max(float(stability.std()), np.finfo(np.float32).tiny)
        scores = SHARPNESS * np.sqrt(2 * np.log(self.salts)) * stability / spread
        total = float(np.exp(scores - scores.max()).sum())
        return [total * float(np.exp(scores.max() - scores[salt])) for salt in salts]

    def _by_salt(self, margins: Logits) -> Images:
        """How far the bits of each salt are from turning over: the sum of its margins."""
        by_group = margins.reshape(-1, GROUP).sum(axis=1).astype(np.float32)
        total: Images = np.zeros(self.salts, dtype=np.float32)
        for groups in self.groups:
            total += by_group.take(groups)
        return total

    def places(self, salt: int) -> Selection:
        """Which of the logits that are seen the salt selects, in the order of the message."""
        first = GROUP * self.groups[:, salt].astype(np.int64)
        places: Selection = (first[:, None] + np.arange(GROUP)).ravel()
        return places[: self.bits]


def seen_by(maps: Sequence[SaltedMap], hash_logits: Logits) -> Logits:
    """What each of several maps of one key shows of one picture (1, 256), in one go."""
    rotations = [one.rotation for one in maps]
    signs = np.stack([rotation.signs for rotation in rotations], axis=1)
    shuffles = np.stack([rotation.shuffles for rotation in rotations], axis=1)
    logits = hash_logits
    for flips, order in zip(signs, shuffles, strict=True):
        logits = _walsh_hadamard(np.take_along_axis(logits * flips, order, axis=1))
    return _turned(logits, maps[0].turns)


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
def _turns(key: Key, count: int) -> Rotation:
    """What the logits of any message under ``key`` are turned by."""
    return Rotation.of(key, "turns", count)


@lru_cache(maxsize=16)
def _group_table(key: Key, width: int, salts: int) -> npt.NDArray[np.uint16]:
    """For each salt a turn, and a secret order of its groups, of which ``width`` are used."""
    ranks = _stream(key, "groups", salts * GROUPS * 2).view(">u2").reshape(salts, GROUPS)
    orders = np.argsort(ranks, axis=1, kind="stable").astype(np.uint16)
    turns = GROUPS * (np.arange(salts, dtype=np.uint16) % TURNS)
    return np.ascontiguousarray((orders[:, :width] + turns[:, None]).T)


def _rotated(logits: Logits, rotation: Rotation) -> Logits:
    """Logits (N, 256) after all rounds of a rotation."""
    for flips, order in zip(*rotation, strict=True):
        logits = _walsh_hadamard((logits * flips)[:, order])
    return logits


def _turned(logits: Logits, turns: Rotation) -> Logits:
    """Logits (N, 256) after each of several rounds by itself: (N, turns * 256)."""
    signs = np.take_along_axis(turns.signs, turns.shuffles, axis=1)
    turned = logits[:, turns.shuffles.ravel()] * signs.ravel()
    return _walsh_hadamard(turned.reshape(-1, CODE_BITS)).reshape(len(logits), -1)


def _walsh_hadamard(values: Logits) -> Logits:
    """The orthonormal transform of the last axis, by sums and differences in a fixed order.

    It runs over many rows at once, so they are laid side by side.
    """
    mixed, span = np.ascontiguousarray(values.T), 1
    other = np.empty_like(mixed)
    while span < CODE_BITS:
        pairs, sums = (each.reshape(-1, 2, span * len(values)) for each in (mixed, other))
        np.add(pairs[:, 0], pairs[:, 1], out=sums[:, 0])
        np.subtract(pairs[:, 0], pairs[:, 1], out=sums[:, 1])
        mixed, other, span = other, mixed, 2 * span
    return np.ascontiguousarray(mixed.T) * np.float32(CODE_BITS**-0.5)  # a power of two: exact


def _stream(key: Key, label: str, count: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(_expanded(key.derive(label.encode()), count), dtype=np.uint8)


def _expanded(seed: bytes, count: int) -> bytes:
    return hashlib.shake_128(seed).digest(count)


_BYTE_SIGNS: Images = 1 - 2 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(
    np.float32
)
"""(256, 8): what each bit of each byte value multiplies an agreement by."""

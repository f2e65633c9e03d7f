"""The lock: from what engines see of pictures to verdicts, and from messages to payloads.

``wrap`` gets logits from plugins, a ``Verifier`` from a compiled graph. Both turn them into
verdicts here: under each key, each salt and each frame that a picture may show, the bits that were
read are compared with the message, and the best of these readings is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coverlock_sdk.arrays import Bits, Floats, Images, Logits
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.errors import CoverLockError, MessageError
from coverlock_sdk.hashing.frames import WHOLE, Frame
from coverlock_sdk.locking.calibration import Calibration
from coverlock_sdk.locking.code_maps import CodeMap, code_map
from coverlock_sdk.locking.identification import Identification, MessageBook
from coverlock_sdk.locking.keys import Key, Keyring, codeword, require_text
from coverlock_sdk.locking.messages import as_bits
from coverlock_sdk.locking.readings import DEFAULT_FLOORS, Floors, Reading
from coverlock_sdk.locking.registration import WHOLE_WEIGHT, PayloadScore, nearby, search
from coverlock_sdk.locking.statistics import check_fpr, corrected
from coverlock_sdk.locking.verdict import RULES, Rule, Verdict

if TYPE_CHECKING:
    from coverlock_sdk.locking.registry import Registry

MOST_BITS = 256
"""The longest message that is locked bit by bit; longer payloads repeat it."""

PROMISING = 1e-3
"""The p-value, before any correction, from which on a picture is decoded once more in a frame."""

SHORTLIST = 2
"""Salts whose exact p-value is computed."""

FAINT = 0.08
"""The least strength of a band, in units of a typical photo: below it a picture is nearly empty,
and an invisible change would give it any code."""


Placing = Callable[[Frame], Logits]
"""Decodes a picture put back in the place that it has in a frame."""


class Terms(NamedTuple):
    """How one key locks one message: the map of its codes, and the bits XORed onto them."""

    key: Key | None
    code_map: CodeMap
    message: Bits
    name: str | None
    """The identifier, for a registry; None for a message that is given as bits."""


@dataclass(frozen=True)
class Lock:
    """How messages, codes and payloads of one watermark, one hash and some keys fit together.

    Without a hash there is no lock, and the payload is the message. A payload longer than
    ``MOST_BITS`` repeats the locked message, which makes it easier to read.
    """

    payload_bits: int
    decoder: Calibration
    hash: ImageHash | None
    keyring: Keyring | None = None
    fpr: float = 1e-6
    rule: Rule = "soft"
    floors: Floors = DEFAULT_FLOORS
    registry: Registry | None = None

    def __post_init__(self) -> None:
        """Refuse settings that cannot be kept."""
        if self.rule not in RULES:
            raise CoverLockError(f"'{self.rule}' is not a rule: use {' or '.join(RULES)}")
        try:
            object.__setattr__(self, "fpr", float(self.fpr))
        except (TypeError, ValueError):
            raise CoverLockError(f"{self.fpr!r} is not a false-positive rate") from None
        check_fpr(self.bits, self.fpr, candidates=len(self.keys))
        if self.registry is not None and (self.keyring is None or self.hash is None):
            raise CoverLockError("a registry needs a key: make one with 'coverlock keygen'")

    @property
    def bits(self) -> int:
        """Length of a message."""
        return self.payload_bits if self.hash is None else min(self.payload_bits, MOST_BITS)

    @property
    def keys(self) -> Sequence[Key | None]:
        """The active keys, the marking one first; a single None where there is no keyring."""
        return self.keyring.keys if self.keyring else (None,)

    def terms(self, message: str | Bits, key: Key | None) -> Terms:
        """How ``key`` locks a message.

        With a key every message, identifier or bits, has a map and pads of its own, so its bits
        are all in the pads. Without one there is a single public map, and an identifier stands for
        its codeword.
        """
        name = require_text(message) if isinstance(message, str) else None
        if key is None or self.hash is None:
            bits = codeword(name, key, self.bits) if name is not None else message
            return Terms(key, self._map(None, ""), np.asarray(bits, dtype=np.uint8), name)
        context = f"id/{name}"
        if not isinstance(message, str):
            context = f"bits/{message.tobytes().hex()}"
        return Terms(key, self._map(key, context), np.zeros(self.bits, np.uint8), name)

    def _map(self, key: Key | None, context: str) -> CodeMap:
        bands = self.hash.bands if self.hash is not None else (self.bits,)
        return code_map(key, context, self.bits, bands)

    def messages(self, messages: Any, count: int) -> list[str | Bits]:
        """One message for each of ``count`` pictures: strings are identifiers, the rest bits."""
        if isinstance(messages, str):
            return [messages] * count
        if isinstance(messages, list | tuple) and any(isinstance(m, str) for m in messages):
            if len(messages) != count:
                raise MessageError(
                    f"the number of messages is {len(messages)}, that of pictures {count}"
                )
            return [m if isinstance(m, str) else as_bits(m, 1, self.bits)[0] for m in messages]
        return list(as_bits(messages, count, self.bits))

    @property
    def _whole_weight(self) -> float:
        """What the p-value of a whole picture is divided by: others are tried besides."""
        registers = self.hash is not None and self.hash.registers and self.registry is None
        return WHOLE_WEIGHT if registers else 1.0

    # Embedding

    def code(self, description: Images | Logits, terms: Terms, salt: int) -> Bits:
        """The bits that a picture XORs onto its message; all zero without a lock."""
        if self.hash is None:
            return np.zeros(self.bits, dtype=np.uint8)
        return self.code_of(terms.code_map.seen(self.hash.code(description))[0, salt], terms, salt)

    def code_of(self, seen: Logits, terms: Terms, salt: int) -> Bits:
        """The same for the numbers (bits,) that the map shows under a salt."""
        return (seen > 0).astype(np.uint8) ^ terms.code_map.pads[salt]

    def payload(self, message: Bits, code: Bits) -> Bits:
        """What is embedded for a message: locked, and repeated to the full length."""
        repeats = -(-self.payload_bits // self.bits)
        return np.tile(message ^ code, repeats)[: self.payload_bits]

    def own_verdict(
        self, decoded: Logits, description: Images | Logits, terms: Terms, salt: int
    ) -> Verdict:
        """What verification says of a picture just marked under ``salt``."""
        [reading] = self._read(decoded, description, terms, [salt], weight=self._whole_weight)
        return self._judged([reading], len(self.keys))

    # Verification

    def verify(
        self,
        decoded: Logits,
        descriptions: Any,
        messages: Any,
        decode: Callable[[int, Frame], Logits] | None = None,
    ) -> list[Verdict]:
        """Whether each picture carries its message under one of the keys.

        ``decode`` reads a picture, by its number, put back in the place that it has in a frame. A
        decoder finds more there than in a crop that fills its whole view.
        """
        return [
            self._verify(decoded[row], descriptions[row], message, decode and partial(decode, row))
            for row, message in enumerate(self.messages(messages, len(decoded)))
        ]

    def _verify(
        self, decoded: Logits, description: Any, message: str | Bits, decode: Placing | None
    ) -> Verdict:
        if self.hash is not None and self.strength(description) < FAINT:
            return self._rejected("the picture is nearly empty, and anything could pass for it")
        readings: list[Reading] = []
        for key in self.keys:
            terms = self.terms(message, key)
            if self.registry is not None and terms.name is not None:
                readings += self._remembered(decoded, description, terms, decode)
            else:
                readings += self._read(decoded, description, terms, weight=self._whole_weight)
        if not readings:
            return self._rejected("the registry has no such picture")
        verdict = self._judged(readings, len(self.keys))
        if verdict or self.registry is not None or self.hash is None or not self.hash.registers:
            return verdict
        for key in self.keys:
            for found in self._registered(decoded, description, self.terms(message, key), decode):
                verdict = _better(verdict, self._judged(found, len(self.keys)))
                if verdict:
                    return verdict
        return verdict

    def strength(self, description: Any) -> float:
        """How much there is to the weakest band of a picture; a typical photo has about 1."""
        assert self.hash is not None
        parts = np.split(self.hash.code(description)[0], np.cumsum(self.hash.bands)[:-1])
        return min(float(np.sqrt(np.square(part).mean())) for part in parts)

    def _read(
        self,
        decoded: Logits,
        description: Any,
        terms: Terms,
        salts: Sequence[int] | None = None,
        frame: Frame = WHOLE,
        weight: float = 1.0,
    ) -> list[Reading]:
        """One picture read in one frame, under ``salts`` or those that fit best."""
        odds = self.log_odds(decoded)
        if self.hash is None:
            return [Reading.unlocked(odds, terms.message)]
        seen = terms.code_map.seen(self.hash.code(description, frame))[0]
        if salts is None:
            salts = self._likely_salts(odds, seen, terms)
        tries = terms.code_map.tries(seen)
        return [
            Reading.of(
                odds,
                seen[salt],
                self.code_of(seen[salt], terms, salt) ^ terms.message,
                self.hash,
                terms.key,
                frame,
                float(tries[salt]) / weight,
            )
            for salt in salts
        ]

    def _likely_salts(self, odds: Floats, seen: Logits, terms: Terms) -> list[int]:
        assert self.hash is not None
        sure = np.tanh(odds / 2) * (1 - 2.0 * (terms.message ^ terms.code_map.pads))
        total = (sure * self.hash.calibration.certainty(seen)).sum(axis=1)
        count = min(SHORTLIST, len(total))
        return [int(salt) for salt in np.argsort(-total)[:count]]

    def _registered(
        self, decoded: Logits, description: Images, terms: Terms, decode: Placing | None
    ) -> Iterator[list[Reading]]:
        """One picture read in the frames that fit best, each under the salt it fits under.

        Where one is promising, the picture is read once more, put back in its place.
        """
        odds = self.log_odds(decoded)
        legible = int((np.abs(odds) > 1e-3).sum())
        least_weight = len(self.keys) * 2.0**-legible / self.fpr
        for found in search(self._score(decoded, description, terms), least_weight):
            for placed in found:
                frame, weight, salt = placed
                readings = self._read(decoded, description, terms, [salt], frame, weight / 2)
                yield readings
                if decode is None or readings[0].p_value(self.rule) > PROMISING:
                    continue
                again = decode(frame)
                score = self._score(again, description, terms)
                frame, weight, salt = nearby(placed, score)
                yield self._read(again, description, terms, [salt], frame, weight / 2)

    def _score(self, decoded: Logits, description: Images, terms: Terms) -> PayloadScore:
        """How well frames fit what was read."""
        image_hash: Any = self.hash
        pads = 1 - 2.0 * (terms.message ^ terms.code_map.pads)
        wanted = np.tanh(self.log_odds(decoded) / 2) * pads
        return PayloadScore(image_hash, description, terms.code_map, wanted.astype(np.float32))

    def _remembered(
        self, decoded: Logits, description: Any, terms: Terms, decode: Placing | None
    ) -> list[Reading]:
        """One picture read in the frame in which it is most like one that the registry has.

        The frame was found without a look at the payload, so nothing has to be paid for it.
        """
        assert self.registry is not None
        assert self.hash is not None
        likeness = self.registry.likeness(terms, self.hash, description)
        if likeness is None:
            return []
        if decode is not None and not likeness.frame.is_whole:
            decoded = decode(likeness.frame)
        readings = self._read(decoded, description, terms, frame=likeness.frame)
        return [replace(reading, likeness=likeness) for reading in readings]

    def log_odds(self, decoded: Logits) -> Floats:
        """Calibrated log-odds (bits,) of the locked message, repeats of a bit added up."""
        confidence = self.decoder.confidence(decoded)
        # A bit without any confidence keeps a trace of its sign.
        trusted = np.maximum(np.log(confidence / (1 - confidence)), 1e-9)
        signed = np.where(decoded > 0, trusted, -trusted)
        padded = np.pad(signed, (0, -self.payload_bits % self.bits))
        summed: Floats = padded.reshape(-1, self.bits).sum(axis=0)
        return summed

    def message_logits(self, decoded: Logits, descriptions: Any) -> Logits:
        """What pictures show without a key: log-odds (N, bits) of the message."""
        if self.keyring is not None and self.hash is not None:
            raise CoverLockError(
                "with a key, what a picture shows depends on the message that is looked for: use "
                "verify or identify instead of decode"
            )
        rows = []
        for row, description in zip(decoded, descriptions, strict=True):
            code = self.code(description, self.terms(np.zeros(self.bits, np.uint8), None), 0)
            rows.append(np.where(code, -1, 1) * self.log_odds(row))
        return np.array(rows, dtype=np.float32).reshape(len(decoded), self.bits)

    # Identification

    def book(self, messages: Any) -> MessageBook:
        """Registered messages, or identifiers, for repeated identification."""
        return MessageBook.of(messages, self.bits)

    def checked_book(self, messages: Any) -> MessageBook:
        """``messages`` as a book that these keys can search at this false-positive rate."""
        book = messages if isinstance(messages, MessageBook) else self.book(messages)
        if book.bits != self.bits:
            raise MessageError(f"the book's messages have {book.bits} bits, {self.bits} are needed")
        check_fpr(self.bits, self.fpr, candidates=len(book) * len(self.keys))
        return book

    def identify(
        self, decoded: Logits, descriptions: Any, book: MessageBook
    ) -> list[Identification]:
        """Which message of ``book`` each picture carries, if any, taken as a whole."""
        return [
            self._identify(row, description, book)
            for row, description in zip(decoded, descriptions, strict=True)
        ]

    def _identify(self, decoded: Logits, description: Any, book: MessageBook) -> Identification:
        if self.hash is not None and self.strength(description) < FAINT:
            reason = "the picture is nearly empty, and anything could pass for it"
            return Identification(None, self._rejected(reason))
        found: list[tuple[Reading, Any, Terms]] = []
        for key in self.keys:
            if key is None or self.hash is None:
                terms = self.terms(book.zero, None)
                [reading] = self._read(decoded, description, terms, [0])
                row = book.nearest(reading.bits, reading.weights(self.rule))
                found.append((reading.compared(book.public(row)), book.labels[row], terms))
                continue
            for label, message in zip(book.labels, book.messages, strict=True):
                terms = self.terms(message, key)
                found += [(r, label, terms) for r in self._read(decoded, description, terms)]
        comparisons = len(book) * len(self.keys)
        best, label, terms = min(found, key=lambda each: self._p_value(each[0], comparisons))
        verdict = self._judged([best], comparisons)
        if verdict and self.registry is not None and self.hash is not None:
            likeness = self.registry.likeness(terms, self.hash, description)
            if likeness is None:
                return Identification(None, self._rejected("the registry has no such picture"))
            verdict = self._judged([replace(best, likeness=likeness)], comparisons)
        return Identification(label if verdict else None, verdict)

    # Judging

    def _p_value(self, reading: Reading, comparisons: float) -> float:
        return corrected(reading.p_value(self.rule), comparisons * reading.tries)

    def _judged(self, readings: Sequence[Reading], comparisons: int) -> Verdict:
        """The verdict on the best of several readings, corrected for all that was tried.

        The best is the one that passes; of several that do, or do not, the least p-value.
        """
        verdicts = [self._verdict(reading, comparisons) for reading in readings]
        return reduce(_better, verdicts)

    def _verdict(self, reading: Reading, comparisons: int) -> Verdict:
        p_value = self._p_value(reading, comparisons)
        agreement, floor = self.floors.tightest(reading, self.rule)
        likeness = reading.likeness
        accepted = p_value <= self.fpr and agreement >= floor
        reason = None
        if accepted and likeness is not None and not likeness.accepted:
            accepted, reason = False, "it is not the picture that the registry remembers"
        return Verdict(
            accepted=accepted,
            p_value=p_value,
            matches=int(reading.matches.sum()),
            bits=self.bits,
            fpr=self.fpr,
            rule=self.rule,
            agreement=agreement,
            floor=floor,
            likeness=None if likeness is None else likeness.least,
            frame=reading.frame if accepted else None,
            key_id=reading.key.id if accepted and reading.key else None,
            reason=reason,
        )

    def _rejected(self, reason: str) -> Verdict:
        return Verdict(False, 1.0, 0, self.bits, self.fpr, self.rule, reason=reason)


def _better(one: Verdict, other: Verdict) -> Verdict:
    """The one that is accepted, or else has the lower p-value."""
    return min(one, other, key=lambda verdict: (not verdict.accepted, verdict.p_value))

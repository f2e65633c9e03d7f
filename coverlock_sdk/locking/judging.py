"""From the logits of pictures to verdicts: keys, messages and a false-positive rate.

``wrap`` gets logits from plugins, a ``Verifier`` from a compiled graph. Both turn them into
verdicts here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import nlargest
from typing import Any, NamedTuple

import numpy as np

from coverlock_sdk.arrays import Bits, Logits
from coverlock_sdk.errors import CoverLockError, MessageError
from coverlock_sdk.locking.error_correction import Framing
from coverlock_sdk.locking.identification import Identification, Kind, MessageBook, kind_of
from coverlock_sdk.locking.keyed_codes import (
    SHORTLIST,
    CodeMap,
    PlainMap,
    SaltedMap,
    salt_count,
    salted_map,
    seen_by,
)
from coverlock_sdk.locking.keys import Key, Keyring, codeword, require_text, serial_map
from coverlock_sdk.locking.lock_format import LockFormat, Reading
from coverlock_sdk.locking.messages import as_bits
from coverlock_sdk.locking.statistics import check_fpr, corrected
from coverlock_sdk.locking.verdict import RULES, Rule, Verdict

SALTS_OF_BITS = 64
"""The most salts that a message given as bits is locked under: ``read`` decodes each of them."""

TOGETHER = 256
"""Identifiers whose maps are in memory at once."""

FEW_SALTS = 16
"""Fewer salts than these are worth a warning."""

FLOORS: dict[Rule, float] = {"hard": 0.79, "soft": 0.84}
"""Least agreement of a locked picture, bits counted or weighed by how much they tell.

Chosen with the default hash by ``coverlock bench floors --held-out``, on photos that training holds
out: the highest that cost genuine pictures under the six distortions at most half a point of
acceptance, on average over mbrs and cin.
"""

KEYED_FLOORS: dict[Rule, float] = {"hard": 0.82, "soft": 0.85}
"""The same with a key, where salts are chosen by how stable their bits are, and bits tell more
that the hash is unsure of."""


class Attempt(NamedTuple):
    """One way to read a picture, the message to find in it, and what that message is called."""

    reading: Reading
    message: Bits
    label: Any = None
    tries: float = 1
    """How many tries the way of reading counts as; an unlikely salt counts as many."""


class Terms(NamedTuple):
    """How one key locks one message: the map of its codes, and the bits XORed onto them."""

    key: Key | None
    code_map: CodeMap
    message: Bits
    kind: Kind


class Judge:
    """Verifies, identifies and reads, given the logits of decoder and hash."""

    def __init__(
        self,
        layout: LockFormat,
        keyring: Keyring | None,
        fpr: float,
        rule: Rule,
        floor: float | None = None,
    ) -> None:
        if rule not in RULES:
            raise CoverLockError(f"'{rule}' is not a rule: use {' or '.join(RULES)}")
        try:
            fpr = float(fpr)
        except (TypeError, ValueError):
            raise CoverLockError(f"{fpr!r} is not a false-positive rate") from None
        self.format = layout
        self.keyring = keyring
        self.bits = layout.bits
        check_fpr(self.bits, fpr, candidates=len(self.keys))
        self.fpr = fpr
        self.rule: Rule = rule
        defaults = FLOORS if keyring is None else KEYED_FLOORS
        self.floor = _floor(floor, defaults[rule], locked=layout.hash is not None)
        self.asked_floor = None if floor is None else self.floor
        """For bundles, which keep what was asked for and leave the rest to whoever opens them."""

    @property
    def keys(self) -> Sequence[Key | None]:
        """The active keys, the marking one first; a single None where there is no keyring."""
        return self.keyring.keys if self.keyring else (None,)

    def terms(self, message: str | Bits, key: Key | None) -> Terms:
        """How ``key`` locks a message.

        Under a key of scheme 2 an identifier has a map of its own, and the pads of its salts are
        its codewords, so that its message is zero. Serials share a few maps, because each codeword
        is used once; bits share another, with few salts, because ``read`` has to try them all.
        """
        kind = kind_of(message)
        if not isinstance(message, str):
            return Terms(key, self._code_map(key, kind), message, kind)
        if kind == "identifier" and key is not None and key.scheme > 1:
            zero = np.zeros(self.bits, dtype=np.uint8)
            return Terms(key, self._identifier_map(key, message), zero, kind)
        word = codeword(message, key, self.bits)
        if kind == "serial" and key is not None and key.scheme > 1:
            return Terms(key, self._serial_map(key, serial_map(message, key)), word, kind)
        return Terms(key, self._code_map(key, kind), word, kind)

    def _identifier_map(self, key: Key, identifier: str) -> SaltedMap:
        """The map that an identifier has for itself under a key of scheme 2."""
        context = f"identifier/{require_text(identifier)}"
        return salted_map(key, context, self.bits, self._salts(key, "identifier"))

    def _serial_map(self, key: Key, number: int) -> SaltedMap:
        """One of the maps that serials have under a key of scheme 2."""
        return salted_map(key, f"serial/{number}", self.bits, 1)

    def _code_map(self, key: Key | None, kind: Kind) -> CodeMap:
        """The map that all messages of a kind share."""
        if key is None or key.scheme == 1:
            return PlainMap.of(key, self.bits)
        return salted_map(key, f"{kind}/", self.bits, self._salts(key, kind))

    def advice(self, kind: Kind) -> str | None:
        """What to know before pictures are marked with the first key, if anything.

        A serial is used once and gives nothing away, under any scheme.
        """
        key = self.keys[0]
        if key is None or kind == "serial":
            return None
        if key.scheme == 1:
            return (
                f"the key '{key.id}' marks by scheme 1, which some twenty released pictures of one "
                "identifier give away: add a new key with 'coverlock keygen --rotate'"
            )
        salts = self._salts(key, kind)
        if kind == "bits" or salts >= FEW_SALTS:
            return None
        return (
            f"messages of {self.bits} bits afford {salts} salts only, so many released pictures of "
            "one identifier may give its lock away: give each picture a serial of its own "
            "(SerialRegistry, or --serials)"
        )

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

    def verify(
        self, decoded: Logits, hashed: Logits, messages: Any, accept_unlocked: bool = False
    ) -> list[Verdict]:
        """Whether each picture carries its message under one of the keys and one of its salts.

        With ``accept_unlocked`` the payload as it is counts too, for pictures marked before the
        lock was introduced; the p-value is corrected for each try.
        """
        return [
            self._verify(decoded[row : row + 1], hashed[row : row + 1], message, accept_unlocked)
            for row, message in enumerate(self.messages(messages, len(decoded)))
        ]

    def _verify(
        self, decoded: Logits, hashed: Logits, message: str | Bits, accept_unlocked: bool
    ) -> Verdict:
        attempts: list[Attempt] = []
        comparisons = len(self.keys)
        for key in self.keys:
            attempts += self.attempts(decoded, hashed, self.terms(message, key))
        if accept_unlocked and self.format.hash is not None:
            bare = self.terms(message, None).message
            attempts += [Attempt(r, bare) for r in self.format.unlocked_readings(decoded)]
            comparisons += 1
        return self._judged(attempts, comparisons)[1]

    def attempts(self, decoded: Logits, hashed: Logits, terms: Terms) -> list[Attempt]:
        """One picture (1, ...) read under the salts that fit best."""
        key, code_map, message, _ = terms
        view = self.format.payload_view(decoded, self.rule)
        [seen] = code_map.seen(hashed)
        found = self.format.search(view, seen, code_map, message, self.rule)
        salts = [salt for _, salt in found]
        return [
            Attempt(reading, message, tries=tries)
            for salt, tries in zip(salts, self.format.tries(hashed, code_map, salts), strict=True)
            for reading in self.format.readings(decoded, hashed, code_map, salt, key)
        ]

    def book(self, messages: Any) -> MessageBook:
        """Pack registered messages, or identifiers, for repeated identification."""
        if isinstance(messages, list | tuple) and all(isinstance(m, str) for m in messages):
            return MessageBook.of_identifiers(messages, self.keyring, self.bits)
        return MessageBook.of_messages(messages, self.bits)

    def checked_book(self, messages: Any) -> MessageBook:
        """``messages`` as a book that these keys can search at this false-positive rate."""
        book = messages if isinstance(messages, MessageBook) else self.book(messages)
        book.require_keys(self.keys)
        if book.bits != self.bits:
            raise MessageError(f"the book's messages have {book.bits} bits, {self.bits} are needed")
        check_fpr(self.bits, self.fpr, candidates=len(book) * len(self.keys))
        return book

    def identify(self, decoded: Logits, hashed: Logits, book: MessageBook) -> list[Identification]:
        """Which message of ``book`` each picture carries, if any."""
        comparisons = len(book) * len(self.keys)
        answers = []
        for row in range(len(decoded)):
            picture = decoded[row : row + 1], hashed[row : row + 1]
            attempts: list[Attempt] = []
            for key in self.keys:
                if book.kind == "identifier" and key is not None and key.scheme > 1:
                    attempts += self._best_identifiers(*picture, book, key)
                elif book.kind == "serial" and key is not None and key.scheme > 1:
                    attempts += self._best_serials(*picture, book, key)
                else:
                    attempts += self._nearest(*picture, book, key)
            answers.append(self._identified(attempts, comparisons))
        return answers

    def read(self, decoded: Logits, hashed: Logits, framing: Framing) -> list[Identification]:
        """The payload that ``framing`` put into the message of each picture.

        The p-value is corrected for all payloads that might have been read.
        """
        check_fpr(self.bits, self.fpr, len(self.keys) << framing.payload_bits)
        comparisons = len(self.keys) << framing.payload_bits
        found: list[list[Attempt]] = [[] for _ in decoded]
        for key in self.keys:
            code_map = self._code_map(key, "bits")
            for salt in range(code_map.salts):
                logits = self.format.message_logits(decoded, hashed, code_map, salt)
                readings = self.format.readings(decoded, hashed, code_map, salt, key)
                for row, (values, reading) in enumerate(zip(logits, readings, strict=True)):
                    payload = framing.decode(values)
                    if payload is not None:
                        [tries] = self.format.tries(hashed[row : row + 1], code_map, [salt])
                        message = framing.encode(payload)
                        found[row].append(Attempt(reading, message, payload, tries))
        return [self._identified(attempts, comparisons) for attempts in found]

    def message_logits(self, decoded: Logits, hashed: Logits) -> Logits:
        """What pictures show to the holder of the first key: log-odds (N, bits) of the message."""
        code_map = self._code_map(self.keys[0], "bits")
        if isinstance(code_map, SaltedMap):
            raise CoverLockError(
                "under a key of scheme 2 what a picture shows depends on the message that is "
                "looked for: use verify, identify or read instead of decode"
            )
        return self.format.message_logits(decoded, hashed, code_map)

    def _best_identifiers(
        self, decoded: Logits, hashed: Logits, book: MessageBook, key: Key
    ) -> list[Attempt]:
        """The identifiers and salts that agree best with one picture, of all there are."""
        found: list[tuple[float, int, int]] = []
        view = self.format.payload_view(decoded, self.rule)
        none = np.zeros(self.bits, dtype=np.uint8)
        for start in range(0, len(book), TOGETHER):
            labels = book.labels[start : start + TOGETHER]
            maps = [self._identifier_map(key, label) for label in labels]
            for row, (code_map, seen) in enumerate(zip(maps, seen_by(maps, hashed), strict=True)):
                salts = self.format.search(view, seen, code_map, none, self.rule)
                tried = ((score, start + row, salt) for score, salt in salts)
                found = nlargest(SHORTLIST, [*found, *tried])
        attempts = []
        for _, row, salt in found:
            code_map = self._identifier_map(key, book.labels[row])
            [reading] = self.format.readings(decoded, hashed, code_map, salt, key)
            [tries] = self.format.tries(hashed, code_map, [salt])
            attempts.append(Attempt(reading, none, book.labels[row], tries))
        return attempts

    def _best_serials(
        self, decoded: Logits, hashed: Logits, book: MessageBook, key: Key
    ) -> list[Attempt]:
        """Of each map that serials share, the serial that agrees best with one picture."""
        attempts = []
        for number, rows in book.by_map(key).items():
            code_map = self._serial_map(key, number)
            [reading] = self.format.readings(decoded, hashed, code_map, key=key)
            row = book.best(reading.bits, reading.weights(self.rule), key, rows)
            attempts.append(Attempt(reading, book.message(row, key), book.labels[row]))
        return attempts

    def _nearest(
        self, decoded: Logits, hashed: Logits, book: MessageBook, key: Key | None
    ) -> list[Attempt]:
        """The message that agrees best with one picture, under each salt that bits may have."""
        attempts = []
        code_map = self._code_map(key, book.kind)
        for salt in range(code_map.salts):
            [reading] = self.format.readings(decoded, hashed, code_map, salt, key)
            row = book.best(reading.bits, reading.weights(self.rule), key)
            [tries] = self.format.tries(hashed, code_map, [salt])
            attempts.append(Attempt(reading, book.message(row, key), book.labels[row], tries))
        return attempts

    def _salts(self, key: Key | None, kind: Kind) -> int:
        """How many salts a message has under ``key``."""
        if key is None or key.scheme == 1 or kind == "serial":
            return 1
        most = salt_count(self.bits)
        return most if kind == "identifier" else min(most, SALTS_OF_BITS)

    def judge_own(self, reading: Reading, message: Bits, tries: float) -> Verdict:
        """What verification, which tries every key and salt, says of a picture just marked."""
        attempt = Attempt(reading, message, tries=tries)
        return self._judged([attempt], len(self.keys))[1]

    def _identified(self, attempts: Sequence[Attempt], comparisons: int) -> Identification:
        if not attempts:
            return Identification(None, Verdict(False, 1.0, 0, self.bits, self.fpr, self.rule))
        best, verdict = self._judged(attempts, comparisons)
        return Identification(best.label if verdict else None, verdict)

    def _judged(self, attempts: Sequence[Attempt], comparisons: int) -> tuple[Attempt, Verdict]:
        """The best of several attempts, and the verdict on it.

        Each p-value is corrected for all ``comparisons`` of messages and keys that were made, and
        for the tries that its salt counts as.
        """
        scored = [
            (corrected(a.reading.p_value(a.message, self.rule), comparisons * a.tries), a)
            for a in attempts
        ]
        p_value, best = min(scored, key=lambda pair: pair[0])
        agreement = best.reading.agreement(best.message, self.rule)
        floor = self.floor if best.reading.locked else 0.0
        accepted, key = p_value <= self.fpr and agreement >= floor, best.reading.key
        return best, Verdict(
            accepted=accepted,
            p_value=p_value,
            matches=int((best.reading.bits == best.message).sum()),
            bits=len(best.message),
            fpr=self.fpr,
            rule=self.rule,
            agreement=agreement,
            floor=floor,
            key_id=key.id if accepted and key else None,
            locked=best.reading.locked or not accepted,
        )


def _floor(floor: float | None, default: float, locked: bool) -> float:
    """The agreement that pictures need: as asked for, or the default under a lock."""
    if floor is None:
        return default if locked else 0.0
    try:
        value = float(floor)
    except (TypeError, ValueError):
        value = math.nan
    if not 0 <= value <= 1:
        raise CoverLockError(f"a floor on agreement is a share from 0 to 1, not {floor!r}")
    if not locked:
        raise CoverLockError("without a lock there is no floor on agreement: leave it out")
    return value

"""From the logits of pictures to verdicts: keys, messages and a false-positive rate.

``wrap`` gets logits from plugins, a ``Verifier`` from a compiled graph. Both turn them into
verdicts here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from coverlock_sdk.arrays import Bits, Logits
from coverlock_sdk.errors import CoverLockError, MessageError
from coverlock_sdk.locking.error_correction import Framing
from coverlock_sdk.locking.identification import Identification, MessageBook
from coverlock_sdk.locking.keys import Key, Keyring, codeword
from coverlock_sdk.locking.lock_format import LockFormat, Reading
from coverlock_sdk.locking.messages import as_bits
from coverlock_sdk.locking.statistics import check_fpr, corrected
from coverlock_sdk.locking.verdict import RULES, Rule, Verdict


class Attempt(NamedTuple):
    """One way to read a picture, the message to find in it, and what that message is called."""

    reading: Reading
    message: Bits
    label: Any = None


class Judge:
    """Verifies, identifies and reads, given the logits of decoder and hash."""

    def __init__(self, layout: LockFormat, keyring: Keyring | None, fpr: float, rule: Rule) -> None:
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

    @property
    def keys(self) -> Sequence[Key | None]:
        """The active keys, the marking one first; a single None where there is no keyring."""
        return self.keyring.keys if self.keyring else (None,)

    def message_bits(self, messages: Any, count: int, key: Key | None) -> Bits:
        """The messages as bits; a string is an identifier and stands for its codeword."""
        if isinstance(messages, str):
            messages = codeword(messages, key, self.bits)
        elif isinstance(messages, list | tuple):
            messages = [codeword(m, key, self.bits) if isinstance(m, str) else m for m in messages]
        return as_bits(messages, count, self.bits)

    def verify(
        self, decoded: Logits, hashed: Logits, messages: Any, accept_unlocked: bool = False
    ) -> list[Verdict]:
        """Whether each picture carries its message under one of the keys.

        With ``accept_unlocked`` the payload as it is counts too, for pictures marked before the
        lock was introduced; the p-value is corrected for each try.
        """
        count = len(decoded)
        tries = [
            map(
                Attempt,
                self.format.readings(decoded, hashed, key),
                self.message_bits(messages, count, key),
            )
            for key in self.keys
        ]
        if accept_unlocked and self.format.hash is not None:
            bare = self.format.unlocked_readings(decoded)
            tries.append(map(Attempt, bare, self.message_bits(messages, count, None)))
        return [self._judged(attempts)[1] for attempts in zip(*tries, strict=True)]

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
        per_key = [self.format.readings(decoded, hashed, key) for key in self.keys]
        comparisons = len(book) * len(self.keys)
        return [
            self._identified([self._nearest(reading, book) for reading in readings], comparisons)
            for readings in zip(*per_key, strict=True)
        ]

    def read(self, decoded: Logits, hashed: Logits, framing: Framing) -> list[Identification]:
        """The payload that ``framing`` put into the message of each picture.

        The p-value is corrected for all payloads that might have been read.
        """
        comparisons = len(self.keys) << framing.payload_bits
        check_fpr(self.bits, self.fpr, comparisons)
        tries: list[list[Attempt]] = [[] for _ in decoded]
        for key in self.keys:
            logits = self.format.message_logits(decoded, hashed, key)
            readings = self.format.readings(decoded, hashed, key)
            for attempts, row, reading in zip(tries, logits, readings, strict=True):
                payload = framing.decode(row)
                if payload is not None:
                    attempts.append(Attempt(reading, framing.encode(payload), payload))
        return [self._identified(attempts, comparisons) for attempts in tries]

    def message_logits(self, decoded: Logits, hashed: Logits) -> Logits:
        """What pictures show to the holder of the first key: log-odds (N, bits) of the message."""
        return self.format.message_logits(decoded, hashed, self.keys[0])

    def judge_own(self, reading: Reading, message: Bits) -> Verdict:
        """What verification, which tries every key, says of a picture marked with the first."""
        return self._judged([Attempt(reading, message)], comparisons=len(self.keys))[1]

    def _nearest(self, reading: Reading, book: MessageBook) -> Attempt:
        row = book.best(reading.bits, reading.weights(self.rule), reading.key)
        return Attempt(reading, book.message(row, reading.key), book.labels[row])

    def _identified(self, attempts: Sequence[Attempt], comparisons: int) -> Identification:
        if not attempts:
            return Identification(None, Verdict(False, 1.0, 0, self.bits, self.fpr, self.rule))
        best, verdict = self._judged(attempts, comparisons)
        return Identification(best.label if verdict else None, verdict)

    def _judged(
        self, attempts: Sequence[Attempt], comparisons: int | None = None
    ) -> tuple[Attempt, Verdict]:
        """The best of several attempts, and the verdict on it.

        The p-value is corrected for all ``comparisons`` that were made, which are more than the
        attempts where each of these is already the best of many.
        """
        scored = [(a.reading.p_value(a.message, self.rule), a) for a in attempts]
        p_value, best = min(scored, key=lambda pair: pair[0])
        p_value = corrected(p_value, comparisons or len(attempts))
        accepted, key = p_value <= self.fpr, best.reading.key
        return best, Verdict(
            accepted=accepted,
            p_value=p_value,
            matches=int((best.reading.bits == best.message).sum()),
            bits=len(best.message),
            fpr=self.fpr,
            rule=self.rule,
            key_id=key.id if accepted and key else None,
            locked=best.reading.locked or not accepted,
        )

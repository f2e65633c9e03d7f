"""From the logits of pictures to answers about them: keys, messages and a false-positive rate.

The authoring layer and the deployed verifier differ in how they come by logits. What they make of
them is this.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from coverlock_sdk.errors import CoverLockError, MessageError
from coverlock_sdk.locking.error_correction import Framing
from coverlock_sdk.locking.identification import Identification, MessageBook
from coverlock_sdk.locking.keys import Key, Keyring, codeword
from coverlock_sdk.locking.lock_format import Bits, LockFormat, Logits, Reading, judge
from coverlock_sdk.locking.messages import as_bits
from coverlock_sdk.locking.statistics import check_fpr
from coverlock_sdk.locking.verdict import RULES, Rule, Verdict
from coverlock_sdk.plugin_manager import plugin_manager


class Examiner:
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
        attempts = [
            zip(
                self.format.readings(decoded, hashed, key),
                self.message_bits(messages, count, key),
                strict=True,
            )
            for key in self.keys
        ]
        if accept_unlocked and self.format.hash is not None:
            bare = self.format.unlocked_readings(decoded)
            attempts.append(zip(bare, self.message_bits(messages, count, None), strict=True))
        return [judge(tries, self.fpr, self.rule) for tries in zip(*attempts, strict=True)]

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
        return [self._identify(readings, book) for readings in zip(*per_key, strict=True)]

    def read(self, decoded: Logits, hashed: Logits, framing: Framing) -> Identification:
        """The payload that ``framing`` put into the message of one picture.

        The p-value is corrected for all payloads that might have been read.
        """
        candidates = len(self.keys) << framing.payload_bits
        check_fpr(self.bits, self.fpr, candidates)
        attempts: list[tuple[Reading, Bits]] = []
        payloads: dict[str | None, int] = {}
        for key in self.keys:
            payload = framing.decode(self.format.message_logits(decoded, hashed, key))
            if payload is None:
                continue
            [reading] = self.format.readings(decoded, hashed, key)
            payloads[key.id if key else None] = payload
            attempts.append((reading, framing.encode(payload)))
        if attempts:
            verdict = judge(attempts, self.fpr, self.rule, candidates)
        else:
            verdict = Verdict(False, 1.0, 0, self.bits, self.fpr, self.rule)
        return Identification(payloads[verdict.key_id] if verdict else None, verdict)

    def judge_own(self, reading: Reading, message: Bits) -> Verdict:
        """What verification, which tries every key, says of a picture marked with the first."""
        return judge([(reading, message)], self.fpr, self.rule, comparisons=len(self.keys))

    def _identify(self, readings: Sequence[Reading], book: MessageBook) -> Identification:
        rows = {
            reading.key: book.best(reading.bits, reading.weights(self.rule), reading.key)
            for reading in readings
        }
        attempts = [(r, book.message(rows[r.key], r.key)) for r in readings]
        verdict = judge(attempts, self.fpr, self.rule, len(book) * len(readings))
        winner = next(row for key, row in rows.items() if (key and key.id) == verdict.key_id)
        return Identification(book.labels[winner] if verdict else None, verdict)


def announce(
    verdicts: Sequence[Verdict], pictures: Any, watermark: str, image_hash: str | None
) -> None:
    """Tell every plugin of verdicts on ``pictures``, which the caller gave as one or many."""
    for verdict, path in zip(verdicts, paths_of(pictures, len(verdicts)), strict=True):
        plugin_manager().announce(verdict, watermark, image_hash, path)


def paths_of(pictures: Any, count: int) -> list[str | None]:
    """Where each of ``count`` pictures came from; None for what was not given as a path."""
    sources = pictures if isinstance(pictures, list | tuple) else [pictures] * count
    return [str(s) if isinstance(s, str | os.PathLike) else None for s in sources]

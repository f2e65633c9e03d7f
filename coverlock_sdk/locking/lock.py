"""The lock turns what engines see of pictures into verdicts, and messages into payloads.

``wrap`` gets logits from plugins, a ``Verifier`` from a compiled graph. Both turn them into
verdicts here: for each key, salt and frame, the lock compares the bits that were read with the
message, and judges the best of these readings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coverlock_sdk.arrays import Bits, Floats, Images, Logits
from coverlock_sdk.calibration import Calibration
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.errors import CoverLockError, MessageError
from coverlock_sdk.frames import WHOLE, Frame
from coverlock_sdk.hashing.views import View, rows_of
from coverlock_sdk.locking.identification import Identification, MessageBook, as_bits
from coverlock_sdk.locking.keys import Key, Keyring, codeword, require_text
from coverlock_sdk.locking.readings import Reading
from coverlock_sdk.locking.registration import WHOLE_WEIGHT, PayloadTarget, Placed, Search
from coverlock_sdk.locking.secret_rotations import CodeMap, code_map, split_bands
from coverlock_sdk.locking.statistics import RULES, Rule, check_fpr
from coverlock_sdk.locking.verdict import DEFAULT_FLOORS, Floors, Verdict

if TYPE_CHECKING:
    from coverlock_sdk.locking.picture_verifier import Looks
    from coverlock_sdk.locking.registry import Likeness, Registry

MOST_BITS = 256
"""The longest message; longer payloads repeat it."""

PROMISING = 1e-3
"""A picture is decoded again in a frame if its uncorrected p-value is at most this."""

SHORTLIST = 2
"""Number of salts for which the exact p-value is computed."""

FAINT = 0.08
"""The least strength of a band, in units of a typical photo. Below it, a picture is nearly empty,
and an invisible change could give it any code."""

NEARLY_EMPTY = "the picture is nearly empty, and anything could pass for it"


class Terms(NamedTuple):
    """How one key locks one message: the map of its codes, and the bits XORed onto them."""

    key: Key | None
    code_map: CodeMap
    message: Bits
    name: str | None
    """The identifier, for a registry; None for a message passed as bits."""


@dataclass(frozen=True)
class _Seen:
    """One picture: the decoder's logits, the hash's description, and a way to look again."""

    row: int
    decoded: Logits
    description: Any
    looks: Looks | None = None
    thorough: bool = False
    codes: dict[Frame, Logits] = field(default_factory=dict, repr=False)
    """The codes computed so far, by frame."""

    def code(self, image_hash: ImageHash, frame: Frame = WHOLE) -> Logits:
        """Its code (1, dimensions) in a frame, computed once."""
        if frame not in self.codes:
            self.codes[frame] = image_hash.code(self.description, frame)
        return self.codes[frame]

    def aspect(self) -> float:
        """Width over height; 1 if unknown."""
        return 1.0 if self.looks is None else self.looks.aspect(self.row)


@dataclass(frozen=True)
class Lock:
    """How messages, codes and payloads of one watermark, one hash and some keys fit together.

    Without a hash there is no lock, and the payload is the message.
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
        """Refuse invalid settings."""
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
        """The active keys, the marking one first, or a single None without a keyring."""
        return self.keyring.keys if self.keyring else (None,)

    def terms(self, message: str | Bits, key: Key | None) -> Terms:
        """How ``key`` locks a message.

        With a key, every message (an identifier or bits) has its own pads, which contain its bits.
        Without one, there is a single public map, and an identifier stands for its codeword.
        """
        name = require_text(message) if isinstance(message, str) else None
        bands = self.hash.bands if self.hash is not None else (self.bits,)
        if key is None or self.hash is None:
            bits = codeword(name, key, self.bits) if name is not None else message
            public = code_map(None, "", self.bits, bands)
            return Terms(key, public, np.asarray(bits, dtype=np.uint8), name)
        context = f"id/{name}"
        if not isinstance(message, str):
            context = f"bits/{message.tobytes().hex()}"
        own = code_map(key, context, self.bits, bands)
        return Terms(key, own, np.zeros(self.bits, np.uint8), name)

    def messages(self, messages: Any, count: int) -> list[str | Bits]:
        """One message for each of ``count`` pictures: strings are identifiers, the rest bits."""
        if isinstance(messages, str):
            return [messages] * count
        if isinstance(messages, list | tuple) and any(isinstance(m, str) for m in messages):
            if len(messages) != count:
                raise MessageError(f"there are {len(messages)} messages for {count} pictures")
            return [m if isinstance(m, str) else as_bits(m, 1, self.bits)[0] for m in messages]
        return list(as_bits(messages, count, self.bits))

    @property
    def _whole_weight(self) -> float:
        """The prior weight of the whole picture, if other frames are tried too; otherwise 1."""
        return WHOLE_WEIGHT if self._searches and self.registry is None else 1.0

    # Embedding

    def code(self, description: Images | Logits, terms: Terms, salt: int) -> Bits:
        """The bits that a picture XORs onto its message; all zero without a lock."""
        if self.hash is None:
            return np.zeros(self.bits, dtype=np.uint8)
        return self.code_of(terms.code_map.seen(self.hash.code(description))[0, salt], terms, salt)

    def code_of(self, seen: Logits, terms: Terms, salt: int) -> Bits:
        """The same bits, from the numbers (bits,) that the map gives under a salt."""
        return (seen > 0).astype(np.uint8) ^ terms.code_map.pads[salt]

    def payload(self, message: Bits, code: Bits) -> Bits:
        """The payload for a message: locked, and repeated to the full length."""
        repeats = -(-self.payload_bits // self.bits)
        return np.tile(message ^ code, repeats)[: self.payload_bits]

    def own_verdict(
        self, decoded: Logits, description: Images | Logits, terms: Terms, salt: int
    ) -> Verdict:
        """The verdict on a picture just marked under ``salt``."""
        seen = _Seen(0, decoded, description)
        [reading] = self._read(seen, terms, [salt], weight=self._whole_weight)
        return self._judged([reading], len(self.keys))

    # Verification

    def verify(
        self,
        decoded: Logits,
        descriptions: Any,
        messages: Any,
        looks: Looks | None = None,
        thorough: bool = False,
    ) -> list[Verdict]:
        """Whether each picture carries its message under one of the keys.

        ``thorough`` takes the same steps for every verdict, so that timing reveals little.
        """
        return [
            self._verify(_Seen(row, decoded[row], descriptions[row], looks, thorough), message)
            for row, message in enumerate(self.messages(messages, len(decoded)))
        ]

    def _verify(self, seen: _Seen, message: str | Bits) -> Verdict:
        faint = self._is_faint(seen)
        if faint and not seen.thorough:
            return self._rejected(NEARLY_EMPTY)
        every = [self.terms(message, key) for key in self.keys]
        remembered = self.registry is not None and isinstance(message, str)
        readings: list[Reading] = []
        for terms in every:
            if remembered:
                found = self._alike(seen, terms.key, terms.name)
                readings += self._read_alike(seen, terms, found[1]) if found else []
            else:
                readings += self._read(seen, terms, weight=self._whole_weight)
        verdict = self._rejected("the registry has no such picture")
        if readings:
            verdict = self._judged(readings, len(self.keys))
        searches = self._searches and not remembered
        for terms in every if searches and (seen.thorough or not verdict) else ():
            readings = self._registered(seen, terms)
            if readings and not verdict:
                verdict = _better(verdict, self._judged(readings, len(self.keys)))
        return self._rejected(NEARLY_EMPTY) if faint else verdict

    def _is_faint(self, seen: _Seen) -> bool:
        return self.hash is not None and self.strength(seen.code(self.hash)) < FAINT

    def strength(self, code: Logits) -> float:
        """Strength of the weakest band of a code (1, dimensions); typical photos have about 1."""
        assert self.hash is not None
        parts = split_bands(code, self.hash.bands)
        return min(float(np.sqrt(np.square(part).mean())) for part in parts)

    def _read(
        self,
        seen: _Seen,
        terms: Terms,
        salts: Sequence[int] | None = None,
        frame: Frame = WHOLE,
        weight: float = 1.0,
    ) -> list[Reading]:
        """Read one picture in one frame, under ``salts`` or the salts that fit best."""
        odds = self.log_odds(seen.decoded)
        if self.hash is None:
            return [Reading.unlocked(odds, terms.message)]
        [shown] = terms.code_map.seen(seen.code(self.hash, frame))
        if salts is None:
            certain = np.copysign(2 * self.hash.calibration.confidence(shown) - 1, shown)
            fit = (_signed(odds, terms) * certain).sum(axis=1)
            salts = [int(salt) for salt in np.argsort(-fit)[:SHORTLIST]]
        tries = terms.code_map.tries(shown)
        return [
            Reading.of(
                odds,
                shown[salt],
                self.code_of(shown[salt], terms, salt) ^ terms.message,
                self.hash,
                terms.key,
                frame,
                float(tries[salt]) / weight,
            )
            for salt in salts
        ]

    @property
    def _searches(self) -> bool:
        return self.hash is not None and self.hash.registers

    def _registered(self, seen: _Seen, terms: Terms) -> list[Reading]:
        """Read one picture in the frames that fit best, each under its best salt.

        If the best reading is promising, put the picture back in its place and read it again.
        """
        legible = int((np.abs(self.log_odds(seen.decoded)) > 1e-3).sum())
        least_weight = len(self.keys) * 2.0**-legible / self.fpr
        search = self._search(seen, terms)
        found = search.best(0.0 if seen.thorough else least_weight)
        if not found:
            return []
        frames = [placed.frame for placed in found]
        codes = search.image_hash.framed(search.view, rows_of(*frames))
        seen.codes.update(zip(frames, codes[:, None], strict=True))
        readings = [self._read_placed(seen, terms, placed) for placed in found]
        if seen.looks is None:
            return readings
        p_values = [reading.p_value(self.rule) for reading in readings]
        best = int(np.argmin(p_values))
        promising = p_values[best] <= PROMISING
        if seen.thorough or (promising and not self._judged(readings, len(self.keys))):
            again = replace(seen, decoded=seen.looks.placed(seen.row, found[best].frame))
            placed = self._search(again, terms, search.view).near(found[best])
            reading = self._read_placed(again, terms, placed)
            readings += [reading] if promising else []
        return readings

    def _read_placed(self, seen: _Seen, terms: Terms, placed: Placed) -> Reading:
        """A reading in a frame, at half its weight, because it may be read twice there."""
        [reading] = self._read(seen, terms, [placed.row], placed.frame, placed.weight / 2)
        return reading

    def _search(self, seen: _Seen, terms: Terms, view: View | None = None) -> Search:
        """A search for the frames that fit the bits that were read."""
        wanted = _signed(self.log_odds(seen.decoded), terms).astype(np.float32)
        view = view or View(seen.description, seen.aspect())
        return Search(self.hash, view, PayloadTarget(terms.code_map, wanted))

    def _alike(
        self, seen: _Seen, key: Key | None, name: str | None = None
    ) -> tuple[str, Likeness] | None:
        """The most similar remembered picture, optionally among those of ``name``."""
        assert self.registry is not None
        assert self.hash is not None
        assert key is not None
        return self.registry.found(
            key, self.hash, seen.description, seen.aspect, name, seen.thorough
        )

    def _read_alike(self, seen: _Seen, terms: Terms, likeness: Likeness) -> list[Reading]:
        """Read one picture in the frame in which it matches a remembered one."""
        if seen.looks is not None and (seen.thorough or not likeness.frame.is_whole):
            again = replace(seen, decoded=seen.looks.placed(seen.row, likeness.frame))
            seen = seen if likeness.frame.is_whole else again
        readings = self._read(seen, terms, frame=likeness.frame)
        return [replace(reading, likeness=likeness) for reading in readings]

    def log_odds(self, decoded: Logits) -> Floats:
        """Calibrated log-odds (bits,) of the locked message, summed over the repeats of a bit."""
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
                "with a key, the bits depend on the message that you look for: use "
                "verify or identify instead of decode"
            )
        rows = []
        for row, description in zip(decoded, descriptions, strict=True):
            code = self.code(description, self.terms(np.zeros(self.bits, np.uint8), None), 0)
            rows.append(np.where(code, -1, 1) * self.log_odds(row))
        return np.array(rows, dtype=np.float32).reshape(len(decoded), self.bits)

    # Identification

    def book(self, messages: Any) -> MessageBook:
        """``messages`` as a book that these keys can search at this false-positive rate."""
        book = messages
        if not isinstance(book, MessageBook):
            book = MessageBook.of(messages, self.bits)
        if book.bits != self.bits:
            raise MessageError(f"the book's messages have {book.bits} bits, {self.bits} are needed")
        check_fpr(self.bits, self.fpr, candidates=len(book) * len(self.keys))
        return book

    def identify(
        self,
        decoded: Logits,
        descriptions: Any,
        book: MessageBook,
        looks: Looks | None = None,
        thorough: bool = False,
    ) -> list[Identification]:
        """Which message of ``book`` each picture carries; crops are found only with a registry."""
        return [
            self._identify(_Seen(row, decoded[row], descriptions[row], looks, thorough), book)
            for row in range(len(decoded))
        ]

    def _identify(self, seen: _Seen, book: MessageBook) -> Identification:
        faint = self._is_faint(seen)
        if not faint or seen.thorough:
            found = self._remembered_one if self.registry is not None else self._nearest
            answer = found(seen, book)
        return Identification(None, self._rejected(NEARLY_EMPTY)) if faint else answer

    def _nearest(self, seen: _Seen, book: MessageBook) -> Identification:
        """The message that fits the whole picture best; every message takes the same steps."""
        found: list[tuple[Reading, Any]] = []
        for key in self.keys:
            rows: Sequence[int] = range(len(book))
            if key is None or self.hash is None:
                zeros = np.zeros(self.bits, np.uint8)
                [reading] = self._read(seen, self.terms(zeros, None), [0])
                rows = [book.nearest(~reading.matches, reading.weights(self.rule))]
            for row in rows:
                readings = self._read(seen, self.terms(book.messages[row], key))
                found += [(reading, book.labels[row]) for reading in readings]
        comparisons = len(book) * len(self.keys)
        best, label = min(found, key=lambda each: each[0].corrected(self.rule, comparisons))
        verdict = self._judged([best], comparisons)
        return Identification(label if verdict else None, verdict)

    def _remembered_one(self, seen: _Seen, book: MessageBook) -> Identification:
        """Find the remembered picture that this one shows, whole or cropped.

        The search does not look at the payload, which must then carry the picture's name.
        """
        entries = zip(book.labels, book.messages, strict=True)
        labels = {message: label for label, message in entries if isinstance(message, str)}
        found = Identification(None, self._rejected("the registry has no such picture"))
        for key in self.keys:
            alike = self._alike(seen, key)
            if alike is None or not (seen.thorough or alike[0] in labels):
                continue
            name, likeness = alike
            readings = self._read_alike(seen, self.terms(name, key), likeness)
            verdict = self._judged(readings, len(labels) * len(self.keys))
            if name in labels and _better(found.verdict, verdict) is verdict:
                found = Identification(labels[name] if verdict else None, verdict)
            if found and not seen.thorough:
                break
        return found

    # Judging

    def _judged(self, readings: Sequence[Reading], comparisons: int) -> Verdict:
        """The first verdict that accepts, or else the one with the lowest p-value.

        Each is corrected for everything that was tried.
        """
        verdicts: list[Verdict] = []
        for reading in readings:
            verdict = Verdict.on(reading, self.fpr, self.rule, self.floors, comparisons)
            if verdict:
                return verdict
            verdicts.append(verdict)
        return min(verdicts, key=lambda verdict: verdict.p_value)

    def _rejected(self, reason: str) -> Verdict:
        return Verdict(False, 1.0, 0, self.bits, self.fpr, self.rule, reason=reason)


def _signed(odds: Floats, terms: Terms) -> Floats:
    """The expected signs (salts, bits) of a code under each salt, and how sure they are."""
    signs: Floats = np.tanh(odds / 2) * (1 - 2.0 * (terms.message ^ terms.code_map.pads))
    return signs


def _better(one: Verdict, other: Verdict) -> Verdict:
    """The reading that is accepted, or else the one with the lower p-value."""
    return min(one, other, key=lambda verdict: (not verdict.accepted, verdict.p_value))

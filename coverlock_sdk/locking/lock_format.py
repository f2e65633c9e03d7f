"""How messages, codes and payloads fit together, and what logits show to the holder of a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coverlock_sdk.arrays import Bits, Floats, Logits
from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.locking.calibration import Calibration
from coverlock_sdk.locking.keyed_codes import CodeMap
from coverlock_sdk.locking.keys import Key
from coverlock_sdk.locking.statistics import (
    Weights,
    hard_p_value,
    soft_p_value,
    soft_weights,
)
from coverlock_sdk.locking.verdict import Rule


@dataclass(frozen=True)
class Reading:
    """What one picture shows to the holder of one key: bits, and how far each can be trusted."""

    bits: Bits
    confidence: Floats
    legibility: Floats
    """How far the decoder alone can be trusted, whatever the hash makes of the picture."""
    telling: Floats
    """How much each bit tells genuine pictures from forged ones; all alike without a key."""
    key: Key | None = None
    locked: bool = True

    def weights(self, rule: Rule) -> Weights | None:
        """What each bit counts for under ``rule``; None when all count alike."""
        return None if rule == "hard" else soft_weights(self.confidence)

    def agreement(self, message: Bits, rule: Rule) -> float:
        """The share of ``message`` that was read, under the soft rule by how much bits tell.

        Bits that the decoder misread say nothing of the picture's code. That its hash is unsure of
        a bit is no excuse: the code of a picture that was made to resemble another's is, too.
        """
        matches = self.bits == message
        weights = None if rule == "hard" else soft_weights(self.legibility) * self.telling
        if weights is None or not weights.any():
            return float(matches.mean())
        return float(weights[matches].sum() / weights.sum())

    def p_value(self, message: Bits, rule: Rule) -> float:
        """How likely an unmarked picture agrees with ``message`` as well as this one does."""
        matches = self.bits == message
        weights = self.weights(rule)
        return hard_p_value(matches) if weights is None else soft_p_value(matches, weights)


@dataclass(frozen=True)
class LockFormat:
    """How messages, codes and payloads of one watermark and one hash fit together.

    Without a hash calibration there is no lock, and the payload is the message. A payload longer
    than the 256 trained code bits repeats the locked message, which makes it easier to read.
    (Using each code bit for several *different* message bits instead would make the matches of a
    forgery rise and fall together, and with 1,024 bits let about one in a hundred pass.)
    """

    payload_bits: int
    decoder: Calibration
    hash: Calibration | None

    @property
    def bits(self) -> int:
        """Length of a message."""
        return self.payload_bits if self.hash is None else min(self.payload_bits, CODE_BITS)

    def code(self, hash_logits: Logits, code_map: CodeMap, salt: int = 0) -> Bits:
        """The bits (N, bits) that pictures XOR onto their message; all zero without a lock."""
        if self.hash is None:
            return np.zeros((len(hash_logits), self.bits), dtype=np.uint8)
        chosen = code_map.selected(hash_logits, salt)
        return (chosen > 0).astype(np.uint8) ^ code_map.mask(salt)

    def payload(self, messages: Bits, code: Bits) -> Bits:
        """What is embedded for ``messages`` (N, bits): locked, and repeated to the full length."""
        locked = messages ^ code
        repeats = -(-self.payload_bits // self.bits)
        return np.tile(locked, repeats)[:, : self.payload_bits]

    def log_odds(self, decoder_logits: Logits) -> Floats:
        """Calibrated log-odds (N, bits) of the locked message, repeats of a bit added up."""
        trusted = _log_odds(self.decoder.confidence(decoder_logits))
        signed = np.where(decoder_logits > 0, trusted, -trusted)
        padding = -self.payload_bits % self.bits
        padded = np.pad(signed, ((0, 0), (0, padding)))
        shape = (len(signed), padded.shape[1] // self.bits, self.bits)
        summed: Floats = padded.reshape(shape).sum(axis=1)
        return summed

    def readings(
        self,
        decoder_logits: Logits,
        hash_logits: Logits,
        code_map: CodeMap,
        salt: int = 0,
        key: Key | None = None,
    ) -> list[Reading]:
        """What each picture shows to the holder of ``key``, who undoes the lock by its map."""
        odds = self.log_odds(decoder_logits)
        bits = (odds > 0).astype(np.uint8) ^ self.code(hash_logits, code_map, salt)
        read = right = _confidence(odds)
        telling = np.ones_like(read)
        if self.hash is not None:
            selected = code_map.selected(hash_logits, salt)
            certain = self.hash.confidence(selected)
            right = read * certain + (1 - read) * (1 - certain)
            if key is not None:
                telling = _telling(selected, hash_logits)
        locked = self.hash is not None
        rows = zip(bits, right, read, telling, strict=True)
        return [Reading(*row, key, locked) for row in rows]

    def unlocked_readings(self, decoder_logits: Logits) -> list[Reading]:
        """What each picture shows when it was marked before there was a lock."""
        odds = self.log_odds(decoder_logits)
        bits = (odds > 0).astype(np.uint8)
        pairs = zip(bits, _confidence(odds), strict=True)
        return [Reading(b, c, c, np.ones_like(c), locked=False) for b, c in pairs]

    def payload_view(self, decoder_logits: Logits, rule: Rule) -> Floats:
        """What the decoder sees of one picture (1, ...), from -1 to 1 for each bit.

        Under the soft rule a bit counts as much as the decoder is sure of it.
        """
        [odds] = self.log_odds(decoder_logits)
        signs: Floats = np.sign(odds)
        return signs if rule == "hard" else signs * (2 * _confidence(odds) - 1)

    def search(
        self,
        payload_view: Floats,
        seen: Logits,
        code_map: CodeMap,
        message: Bits,
        rule: Rule,
    ) -> list[tuple[float, int]]:
        """The salts under which one picture agrees best with ``message``.

        ``seen`` (256,) is what the map shows of its hash logits.
        """
        if self.hash is None:
            return [(0.0, 0)]
        signs: Logits = np.where(seen > 0, np.float32(1), np.float32(-1))
        hash_view = self.hash.certainty(seen) if rule == "soft" else signs
        return code_map.search(payload_view, hash_view, message)

    def stablest_salt(self, hash_logits: Logits, code_map: CodeMap) -> int:
        """The salt under which the code of one picture is the stablest.

        The first row of ``hash_logits`` (N, 256) is its own, others are what distortions may make
        of them.
        """
        if self.hash is None or code_map.salts == 1:
            return 0
        return code_map.stablest(code_map.seen(hash_logits))

    def tries(self, hash_logits: Logits, code_map: CodeMap, salts: Sequence[int]) -> list[float]:
        """How many tries a match of one picture (1, 256) counts as under each of ``salts``."""
        if self.hash is None or code_map.salts == 1:
            return [1.0] * len(salts)
        return code_map.tries(code_map.seen(hash_logits)[0], salts)

    def message_logits(
        self, decoder_logits: Logits, hash_logits: Logits, code_map: CodeMap, salt: int = 0
    ) -> Logits:
        """Log-odds (N, bits) of the message itself: the lock undone."""
        signs = 1.0 - 2.0 * self.code(hash_logits, code_map, salt)
        return (self.log_odds(decoder_logits) * signs).astype(np.float32)


def _telling(selected: Logits, hash_logits: Logits) -> Floats:
    """How much the bits of ``selected`` (N, bits) tell, given all logits of their pictures.

    Who does not have the key cannot know which bits count, and has to bring the whole code near the
    source's. The bits that stay wrong are then mostly those that the hash is unsure of. In genuine
    pictures most wrong bits are the decoder's, and those do not care what the hash is sure of.
    """
    typical = np.square(hash_logits).mean(axis=1, keepdims=True)
    telling: Floats = np.exp(-np.square(selected) / np.maximum(typical, 1e-12)).astype(np.float64)
    return telling


def _log_odds(confidence: Floats) -> Floats:
    # A bit without any confidence keeps a trace of its sign.
    odds: Floats = np.maximum(np.log(confidence / (1 - confidence)), 1e-9)
    return odds


def _confidence(log_odds: Floats) -> Floats:
    return Calibration().confidence(log_odds)

"""How messages, codes and payloads fit together, and what logits show to the holder of a key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coverlock_sdk.arrays import Bits, Floats, Logits
from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.locking.calibration import Calibration
from coverlock_sdk.locking.keys import Key, Selection, bit_mask, bit_selection
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
    key: Key | None = None
    locked: bool = True

    def weights(self, rule: Rule) -> Weights | None:
        """What each bit counts for under ``rule``; None when all count alike."""
        return None if rule == "hard" else soft_weights(self.confidence)

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

    def code(self, hash_logits: Logits, key: Key | None) -> Bits:
        """The bits (N, bits) that a picture XORs onto its message under ``key``."""
        if self.hash is None:
            return np.zeros((len(hash_logits), self.bits), dtype=np.uint8)
        chosen = hash_logits[:, bit_selection(key, CODE_BITS, self.bits)]
        return (chosen > 0).astype(np.uint8) ^ bit_mask(key, self.bits)

    def wanted_signs(self, code: Bits, key: Key | None) -> tuple[Selection, Logits]:
        """Which hash logits (bits,) a picture's ``code`` is read from, and the sign each shows."""
        bits = code ^ bit_mask(key, self.bits)
        return bit_selection(key, CODE_BITS, self.bits), 2 * bits.astype(np.float32) - 1

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
        self, decoder_logits: Logits, hash_logits: Logits, key: Key | None
    ) -> list[Reading]:
        """What each picture shows to the holder of ``key``."""
        odds = self.log_odds(decoder_logits)
        bits = (odds > 0).astype(np.uint8) ^ self.code(hash_logits, key)
        right = _confidence(odds)
        if self.hash is not None:
            chosen = hash_logits[:, bit_selection(key, CODE_BITS, self.bits)]
            certain = self.hash.confidence(chosen)
            right = right * certain + (1 - right) * (1 - certain)
        locked = self.hash is not None
        return [Reading(b, c, key, locked) for b, c in zip(bits, right, strict=True)]

    def unlocked_readings(self, decoder_logits: Logits) -> list[Reading]:
        """What each picture shows when it was marked before there was a lock."""
        odds = self.log_odds(decoder_logits)
        bits = (odds > 0).astype(np.uint8)
        pairs = zip(bits, _confidence(odds), strict=True)
        return [Reading(b, c, locked=False) for b, c in pairs]

    def message_logits(
        self, decoder_logits: Logits, hash_logits: Logits, key: Key | None
    ) -> Logits:
        """Log-odds (N, bits) of the message itself: the lock undone."""
        signs = 1.0 - 2.0 * self.code(hash_logits, key)
        return (self.log_odds(decoder_logits) * signs).astype(np.float32)


def _log_odds(confidence: Floats) -> Floats:
    # A bit without any confidence keeps a trace of its sign.
    odds: Floats = np.maximum(np.log(confidence / (1 - confidence)), 1e-9)
    return odds


def _confidence(log_odds: Floats) -> Floats:
    return Calibration().confidence(log_odds)

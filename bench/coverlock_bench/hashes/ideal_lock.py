"""A lock as a forger of codes meets it: 64 bits, and a decoder that makes no error.

What is left to decide over a forgery is the hash. Real decoders err on pasted residuals, so real
forgeries succeed less often.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coverlock_bench.keyed import key_of
from coverlock_sdk.arrays import Logits
from coverlock_sdk.locking.calibration import Calibration
from coverlock_sdk.locking.coverlock import DEFAULT_FPR
from coverlock_sdk.locking.judging import Judge
from coverlock_sdk.locking.keys import Key, Keyring
from coverlock_sdk.locking.lock_format import LockFormat
from coverlock_sdk.locking.verdict import Rule, Verdict
from coverlock_sdk.training.hashes.kind_figures import SELECTED

KEYS = 16
"""Keys over which the odds of a forgery are averaged; each rotates the code in its own way."""

CERTAIN = 20.0
"""A decoder logit without doubt."""

CUSTOMER = "customer"


class IdealLock:
    """Locks by the logits of a hash, without a key or with keys of the current scheme."""

    def __init__(self, calibration: Calibration, keyed: bool) -> None:
        self._layout = LockFormat(SELECTED, Calibration(), calibration)
        scheme, count = ("scheme 2", KEYS) if keyed else ("keyless", 1)
        self._keys = [key_of(scheme, seed) for seed in range(count)]

    def accepted(self, sources: Logits, forged: Logits, rule: Rule) -> npt.NDArray[np.float64]:
        """For each forgery with the mark of a source: the share of keys that accept it."""
        verdicts = self.verdicts(sources, forged, rule)
        return np.mean([[bool(verdict) for verdict in row] for row in verdicts], axis=0)

    def verdicts(self, sources: Logits, forged: Logits, rule: Rule) -> list[list[Verdict]]:
        """By key, the verdict on each forgery with the mark of a source."""
        return [self._verdicts(key, sources, forged, rule) for key in self._keys]

    def _verdicts(
        self, key: Key | None, sources: Logits, forged: Logits, rule: Rule
    ) -> list[Verdict]:
        keyring = Keyring([key]) if key is not None else None
        judge = Judge(self._layout, keyring, DEFAULT_FPR, rule)
        terms = judge.terms(CUSTOMER, judge.keys[0])
        verdicts = []
        for source, picture in zip(sources, forged, strict=True):
            salt = self._layout.stablest_salt(source[None], terms.code_map)
            code = self._layout.code(source[None], terms.code_map, salt)
            payload = self._layout.payload(terms.message[None], code)
            decoded = np.where(payload, CERTAIN, -CERTAIN).astype(np.float32)
            verdicts += judge.verify(decoded, picture[None], CUSTOMER)
        return verdicts

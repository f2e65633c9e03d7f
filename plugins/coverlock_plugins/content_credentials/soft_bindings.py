"""The two soft bindings of a manifest: the locked serial in the mark, and a fingerprint.

Their values are bytes in our own format, in base64 as C2PA's tools write them. The lock's value is
the serial. Reading a serial off a picture requires undoing the lock, so a look-up by this value
comes from somebody who verified the picture.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from coverlock_plugins.content_credentials import ProvenanceError
from coverlock_sdk.arrays import Logits

ASSERTION = "c2pa.soft-binding"
LOCK = "io.github.coverlock.lock.1"
"""Our name in the C2PA list of soft-binding algorithms, for locked watermarks."""


def fingerprint_algorithm(hash: str) -> str:
    """Our name in that list for fingerprints: each hash is a separate algorithm."""
    return f"io.github.coverlock.fingerprint.{hash}"


def fingerprint_of(code: Logits) -> bytes:
    """The fingerprint of the picture with this code (1, dimensions)."""
    return np.packbits(code > 0).tobytes()


@dataclass(frozen=True)
class SoftBindings:
    """What a manifest says about its picture."""

    serial: str
    """The identifier of this picture alone."""
    watermark: str
    hash: str
    key: str | None
    """The fingerprint of the key that the mark was locked with, if any."""
    fingerprint: bytes
    """The signs of the code of the signed picture."""

    @property
    def algorithms(self) -> list[str]:
        """The names of both algorithms."""
        return [LOCK, fingerprint_algorithm(self.hash)]

    def assertions(self) -> list[dict[str, Any]]:
        """The two assertions for a manifest."""
        parameters = {"watermark": self.watermark, "hash": self.hash, "key": self.key}
        locked = _about_all(LOCK, self.serial.encode())
        locked["alg-params"] = _encoded(json.dumps(parameters).encode())
        looks = _about_all(fingerprint_algorithm(self.hash), self.fingerprint)
        return [{"label": ASSERTION, "data": data} for data in (locked, looks)]

    def are_those_of(self, manifest: Mapping[str, Any]) -> bool:
        """Whether a manifest makes these two assertions.

        C2PA asks resolvers to match all soft bindings of a manifest, so a third one is too many.
        """
        signed = [
            entry["data"]
            for entry in manifest.get("assertions", [])
            if entry["label"].partition("__")[0] == ASSERTION
        ]
        return signed == [assertion["data"] for assertion in self.assertions()]


def decoded(value: str) -> bytes:
    """The bytes that the value of a soft binding stands for."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ProvenanceError("the value of a soft binding must be in base64") from None


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _about_all(algorithm: str, value: bytes) -> dict[str, Any]:
    """The data of a soft binding of the whole picture."""
    return {"alg": algorithm, "blocks": [{"scope": {}, "value": _encoded(value)}]}

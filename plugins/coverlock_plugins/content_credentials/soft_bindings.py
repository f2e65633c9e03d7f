"""The two soft bindings of a manifest: the locked serial in the mark, and a fingerprint.

Their values are bytes in a format of our own, in base64 as C2PA's tools write them. The lock's
value is the serial. Nobody reads a serial off a picture without undoing the lock, so a look-up by
this value comes from somebody who verified the picture.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coverlock_plugins.content_credentials.errors import ProvenanceError
from coverlock_plugins.content_credentials.lookups import LONGEST

ASSERTION = "c2pa.soft-binding"
LOCK = "io.github.coverlock.lock.1"
"""Our name in the C2PA list of soft-binding algorithms, for locked watermarks."""

_FINGERPRINT = "io.github.coverlock.fingerprint."


def fingerprint_algorithm(hash: str) -> str:
    """Our name in that list for fingerprints: each hash is an algorithm of its own."""
    return f"{_FINGERPRINT}{hash}"


@dataclass(frozen=True)
class SoftBindings:
    """What a manifest says of the picture that it belongs to."""

    serial: str
    """The identifier of this picture and no other."""
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
        """The two assertions that a manifest makes of this."""
        parameters = {"watermark": self.watermark, "hash": self.hash, "key": self.key}
        lock = soft_binding(LOCK, self.serial.encode())
        lock["data"]["alg-params"] = encoded(json.dumps(parameters).encode())
        return [lock, soft_binding(fingerprint_algorithm(self.hash), self.fingerprint)]

    @classmethod
    def of_manifest(cls, manifest: Mapping[str, Any]) -> SoftBindings:
        """Read them from a manifest; one that cannot be checked here is refused.

        C2PA asks resolvers to match all soft bindings of a manifest, so an unknown one is too many.
        """
        found = {data["alg"]: data for data in _soft_bindings(manifest)}
        lock = found.pop(LOCK, None)
        if lock is None:
            raise ProvenanceError("the manifest has no soft binding of a locked watermark")
        parameters = _parameters(lock)
        fingerprint = found.pop(fingerprint_algorithm(parameters["hash"]), None)
        if fingerprint is None:
            raise ProvenanceError(
                f"the manifest has no fingerprint by '{parameters['hash']}', the hash of its lock"
            )
        if found:
            raise ProvenanceError(
                f"the manifest has a soft binding by '{next(iter(found))}', which cannot be "
                "checked here: all of them must match"
            )
        return cls(
            serial=as_text(_value(lock)),
            watermark=parameters["watermark"],
            hash=parameters["hash"],
            key=parameters["key"],
            fingerprint=as_fingerprint(_value(fingerprint)),
        )


def encoded(value: bytes) -> str:
    """Bytes in base64, as manifests and requests hold them."""
    return base64.b64encode(value).decode()


def decoded(value: str) -> bytes:
    """The bytes that base64 stands for."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ProvenanceError("the value of a soft binding must be in base64") from None


def soft_binding(algorithm: str, value: bytes) -> dict[str, Any]:
    """The assertion that a value by an algorithm stands for the whole picture."""
    blocks = [{"scope": {}, "value": encoded(value)}]
    return {"label": ASSERTION, "data": {"alg": algorithm, "blocks": blocks}}


def _soft_bindings(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The data of each soft binding; two of one algorithm contradict each other."""
    found = [
        entry["data"]
        for entry in manifest.get("assertions", [])
        if entry["label"].partition("__")[0] == ASSERTION
    ]
    algorithms = [data.get("alg") if isinstance(data, dict) else None for data in found]
    if not all(isinstance(name, str) for name in algorithms):
        raise ProvenanceError("the manifest has a soft binding without an algorithm")
    if len(set(algorithms)) < len(algorithms):
        raise ProvenanceError("the manifest has two soft bindings by one algorithm")
    return found


def _value(data: dict[str, Any]) -> bytes:
    """The only value of a soft binding of ours, which is about the whole picture."""
    try:
        [block] = data["blocks"]
        return decoded(block["value"])
    except (KeyError, TypeError, ValueError):
        raise ProvenanceError(
            f"the manifest's soft binding by '{data['alg']}' is damaged"
        ) from None


def _parameters(lock: dict[str, Any]) -> dict[str, Any]:
    try:
        parameters = json.loads(decoded(lock["alg-params"]))
        named = {name: parameters[name] for name in ("watermark", "hash", "key")}
    except (KeyError, TypeError, ValueError):
        raise ProvenanceError("the manifest does not say how its mark is locked") from None
    if not isinstance(named["watermark"], str) or not isinstance(named["hash"], str):
        raise ProvenanceError("the manifest does not say how its mark is locked")
    return named


def as_text(value: bytes) -> str:
    """The serial that the value of a lock's soft binding stands for."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ProvenanceError("the serial in a soft binding is not text") from None


def as_fingerprint(value: bytes) -> bytes:
    """The value of a fingerprint's soft binding, if it can be one."""
    if not 0 < len(value) <= LONGEST:
        raise ProvenanceError(f"a fingerprint has 1 to {LONGEST} bytes, not {len(value)}")
    return value

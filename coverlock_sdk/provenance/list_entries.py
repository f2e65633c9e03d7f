"""Our entries for C2PA's public list of soft-binding algorithms, ready to be submitted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from coverlock_sdk.errors import ProvenanceError
from coverlock_sdk.provenance.soft_bindings import LOCK, fingerprint_algorithm

HOME = "https://github.com/coverlock/coverlock-sdk/blob/main/docs/content-credentials.md"

_LOCK = (
    "CoverLock: a neural image watermark whose payload is a serial number XORed with a "
    "distortion-stable hash of the picture that carries it, so that a mark moved to another "
    "picture does not verify. The parameters name the watermark, the hash and the key"
)
_FINGERPRINT = (
    "CoverLock: the signs of the public image code '{hash}', compared by their Hamming distance"
)


def list_entries(
    hashes: Sequence[str],
    contact: str,
    first_identifier: int,
    resolution_apis: Sequence[str] = (),
    benchmark: dict[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """One entry for the lock, and one for the fingerprint of each hash.

    ``first_identifier`` is the next free number of the list. ``benchmark`` is a credential for the
    lock, as ``audit_credential`` makes it.
    """
    described = {LOCK: ("watermark", _LOCK)} | {
        fingerprint_algorithm(hash): ("fingerprint", _FINGERPRINT.format(hash=hash))
        for hash in hashes
    }
    entries = []
    for number, (algorithm, (kind, description)) in enumerate(described.items(), first_identifier):
        about: dict[str, Any] = {
            "description": description,
            "dateEntered": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
            "contact": contact,
            "informationalUrl": HOME,
        }
        if benchmark and kind == "watermark":
            about["benchmarkingInformation"] = [benchmark]
        entry: dict[str, Any] = {
            "identifier": number,
            "alg": algorithm,
            "type": kind,
            "decodedMediaTypes": ["image"],
            "entryMetadata": about,
        }
        if resolution_apis:
            entry["softBindingResolutionApis"] = list(resolution_apis)
        entries.append(entry)
    return entries


def audit_credential(audit: Path, url: str) -> dict[str, Any]:
    """An audit's JSON as the benchmark that an entry links to, under the ``url`` it is put at."""
    try:
        content = audit.read_bytes()
        document = json.loads(content)
        made, command = document["made"], document["command"]
    except OSError as error:
        raise ProvenanceError(f"{audit} cannot be read ({error.strerror or error})") from None
    except (KeyError, TypeError, ValueError):
        raise ProvenanceError(
            f"{audit} is not the JSON of an audit: 'coverlock audit' writes one to its --out"
        ) from None
    return {
        "description": f"Forgery and robustness, as measured by 'coverlock {command}'",
        "coveredMediaTypes": ["image"],
        "benchmarkDate": made[:10],
        "results": {"url": url, "sha256": hashlib.sha256(content).hexdigest()},
    }

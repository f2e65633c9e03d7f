"""Receiving a file from a server: as much as is reasonable, whole, and with its digest."""

from __future__ import annotations

import hashlib
import http.client
import ssl
import urllib.error
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coverlock_sdk.models.assets import Progress

TIMEOUT_SECONDS = 30
MAX_BYTES = 1 << 28
"""No download may grow beyond this, whatever the server keeps sending."""

NETWORK_ERRORS = (
    urllib.error.URLError,
    http.client.HTTPException,
    ssl.SSLError,
    TimeoutError,
    ConnectionError,
    ValueError,  # an address that is none
)


def receive(response: http.client.HTTPResponse, target: Path, progress: Progress | None) -> str:
    """Write what a server sends to ``target``, and return its SHA-256 in hexadecimal."""
    received, digest = 0, hashlib.sha256()
    length = response.headers.get("Content-Length", "")
    total = int(length) if length.isdigit() else None
    with target.open("wb") as file:
        while block := response.read(1 << 16):
            received += len(block)
            if received > MAX_BYTES:
                raise ConnectionError(f"it does not end after {MAX_BYTES:,} bytes")
            digest.update(block)
            file.write(block)
            if progress is not None:
                progress(received, total)
    if total is not None and received < total:
        raise ConnectionError("the connection was cut")
    return digest.hexdigest()

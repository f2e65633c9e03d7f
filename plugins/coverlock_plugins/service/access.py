"""Who may call the service, how often, what they may mark, and what they may see.

A p-value tells an attacker how close a forgery came, so callers see only accepted or rejected,
unless their token allows ``detail``.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from coverlock_sdk import CoverLockError
from coverlock_sdk.documents import DocumentError, parsed, read_file
from coverlock_sdk.files import write_atomically
from coverlock_sdk.images.picture import MOST_PIXELS

Scope = Literal["verify", "identify", "embed", "detail", "metrics", "resolve"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

_NAME = r"\A[\w.-]{1,64}\Z"


class Caller(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token holder, as recorded in the token file, which does not keep the token itself."""

    name: Annotated[str, Meta(pattern=_NAME)]
    sha256: str
    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1)] = ("verify",)
    rate: Annotated[float, Meta(ge=1e-6, le=1e9)] = 10.0
    """Requests per second, on average."""
    burst: Annotated[int, Meta(ge=1, le=10**9)] = 20
    """Requests allowed at once after a pause."""
    prefixes: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    """Prefixes of identifiers that this caller may mark; empty means any."""

    def may_mark(self, identifier: str) -> bool:
        """Whether this caller may mark pictures with an identifier."""
        return not self.prefixes or identifier.startswith(self.prefixes)


ANYBODY = Caller("", "")
"""The caller if a service has no tokens, or a request has no known token."""


class Callers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The callers of a service, from a token file."""

    callers: tuple[Caller, ...]

    def holder(self, token: str) -> Caller | None:
        """The holder of a token. Tokens are random, so looking up their digest leaks nothing."""
        wanted = digest(token)
        return next((caller for caller in self.callers if caller.sha256 == wanted), None)

    @classmethod
    def load(cls, path: Path) -> Callers:
        """Read a token file."""
        try:
            return parsed(read_file(path), cls)
        except DocumentError as error:
            raise CoverLockError(
                f"{path} is not a token file of this version ({error}): "
                f"make one with 'coverlock token NAME --file {path}'"
            ) from None


def add_token(path: Path, name: str, scopes: tuple[Scope, ...], **rights: Any) -> str:
    """Make the only token of ``name``, with more fields of a ``Caller``; it is stored nowhere."""
    if not re.match(_NAME, name):
        raise CoverLockError(f"'{name}' is not a name: use up to 64 letters and digits")
    token = f"clk_{secrets.token_urlsafe(32)}"
    fields = {"name": name, "sha256": digest(token), "scopes": scopes, **rights}
    try:
        caller = msgspec.convert(fields, Caller)
    except msgspec.ValidationError as error:
        raise CoverLockError(f"no token can be made for '{name}' ({error})") from None
    others = [c for c in Callers.load(path).callers if c.name != name] if path.exists() else []
    content = msgspec.json.format(msgspec.json.encode(Callers((*others, caller))))
    try:
        write_atomically(path, content + b"\n", mode=0o600)
    except OSError as error:
        raise CoverLockError(f"{path} cannot be written ({error.strerror or error})") from None
    return token


def digest(token: str) -> str:
    """What the file keeps of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of the service."""

    bytes: Count = 20_000_000
    """Largest picture file."""
    pixels: Annotated[int, Meta(ge=1, le=MOST_PIXELS)] = 16_000_000
    """Largest picture: a small file can decode to a very large picture. Phones take 12 million."""
    in_flight: Count = 64
    """Pictures in progress or waiting; beyond that, HTTP 503."""
    seconds: Seconds = 10.0
    """Time to receive a picture, and the same again to answer."""
    rejections: Count = 100
    """Rejections per message in 30 days, across all callers (see ``budgets``)."""
    decode_seconds: Seconds = 5.0
    """Processor time for decoding a picture, after which decoding is stopped."""
    psnr: float | None = None
    """Quality of marked pictures in decibels; None for the watermark's own."""
    drain_seconds: Seconds = 5.0
    """Seconds after SIGTERM during which ``/readyz`` says "draining"."""
    counted_in: str = "memory://"
    """Where rates and rejections are counted: redis://HOST:PORT for several services."""

    @classmethod
    def chosen(cls, settings: Iterable[str]) -> Limits:
        """The default limits, changed by texts of the form NAME=VALUE."""
        pairs = (setting.partition("=") for setting in settings)
        chosen = {name.strip(): value.strip() for name, _, value in pairs}
        try:
            return msgspec.convert(chosen, cls, strict=False)
        except msgspec.ValidationError as error:
            raise CoverLockError(
                f"a limit cannot be set ({error}): "
                f"use NAME=VALUE for one of {', '.join(cls.__struct_fields__)}"
            ) from None


class Deadline:
    """When the answer to a request is due, shared by the caller's side and the worker's.

    The worker calls ``commit`` before it does anything that outlives the request (a serial, a line
    in the audit log). Whichever side comes first decides: after a commit, the caller's side waits
    for the answer; after the caller's side gave up, nothing can be committed.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._decided = threading.Lock()

    @property
    def left(self) -> float:
        """Seconds until the deadline; a ``TimeoutError`` once it has passed."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def commit(self) -> None:
        """From here on, finish the work and answer, even if that takes longer."""
        if self.left <= 0 or not self._decided.acquire(blocking=False):
            raise TimeoutError

    def give_up(self) -> bool:
        """Stop waiting, unless the work was committed."""
        return self._decided.acquire(blocking=False)

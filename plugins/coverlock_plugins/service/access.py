"""Who may ask the service, how often, for how much of it, and what they may mark and be told.

A p-value tells an attacker how close a forgery came, so callers see accepted or rejected and
nothing else unless their token says ``detail``.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from coverlock_sdk.documents import DocumentError, read_file
from coverlock_sdk.errors import AccessError, CoverLockError
from coverlock_sdk.files import write_atomically
from coverlock_sdk.images.picture import MOST_PIXELS

Scope = Literal["verify", "identify", "embed", "detail", "metrics", "resolve"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

SLOWEST, FASTEST = 1e-6, 1e9
"""Requests a second that a token can be made for."""

_NAME = re.compile(r"[\w.-]{1,64}")


class Caller(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A holder of a token, as the token file knows them: the token itself is not kept."""

    name: str
    sha256: str
    scopes: tuple[Scope, ...] = ("verify",)
    rate: float = 10.0
    """Requests a second, on average."""
    burst: int = 20
    """Requests that may come at once after a pause."""
    prefixes: tuple[str, ...] = ()
    """What identifiers must begin with for this caller to mark them; none means any."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise AccessError(f"'{self.name}' is not a name: use up to 64 letters and digits")
        if not self.scopes or not set(self.scopes) <= set(SCOPES):
            raise AccessError(f"the scopes of '{self.name}' must be among {', '.join(SCOPES)}")
        if not SLOWEST <= self.rate <= FASTEST or not 1 <= self.burst <= FASTEST:
            raise AccessError(
                f"'{self.name}' has a rate of {self.rate:g} and a burst of {self.burst}: the rate "
                f"is {SLOWEST:g} to {FASTEST:g} requests a second, the burst at least 1"
            )
        if "" in self.prefixes:
            raise AccessError(f"a prefix of '{self.name}' is empty: leave it out to allow any")

    def may_mark(self, identifier: str) -> bool:
        """Whether this caller may mark pictures with an identifier."""
        return not self.prefixes or identifier.startswith(self.prefixes)


class Callers:
    """The callers of a service, by token."""

    def __init__(self, callers: Iterable[Caller]) -> None:
        self.all = tuple(callers)
        self._by_digest = {caller.sha256: caller for caller in self.all}

    def holder(self, token: str) -> Caller | None:
        """Whose token this is. Tokens are random, so looking up their digest leaks nothing."""
        return self._by_digest.get(_digest(token))

    @classmethod
    def load(cls, path: Path) -> Callers:
        """Read a token file."""
        try:
            file = msgspec.json.decode(read_file(path), type=dict[str, tuple[Caller, ...]])
            return cls(file["callers"])
        except (DocumentError, ValueError, KeyError, RecursionError) as error:
            raise AccessError(
                f"{path} is not a token file of this version ({error}): "
                f"make one with 'coverlock token NAME --file {path}'"
            ) from None

    def save(self, path: Path) -> None:
        """Write a token file that only its owner can read."""
        content = msgspec.json.format(msgspec.json.encode({"callers": self.all}))
        try:
            write_atomically(path, content + b"\n", mode=0o600)
        except OSError as error:
            raise AccessError(f"{path} cannot be written ({error.strerror or error})") from None


def add_token(
    path: Path,
    name: str,
    scopes: tuple[Scope, ...],
    rate: float,
    burst: int,
    prefixes: tuple[str, ...] = (),
) -> str:
    """Make a token for ``name``, replacing the one they had, and return it: it is kept nowhere."""
    token = f"clk_{secrets.token_urlsafe(32)}"
    others = [c for c in Callers.load(path).all if c.name != name] if path.exists() else []
    Callers([*others, Caller(name, _digest(token), scopes, rate, burst, prefixes)]).save(path)
    return token


Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0)]


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of the service."""

    bytes: Count = 20_000_000
    """Of a picture file."""
    pixels: Annotated[int, Meta(ge=1, le=MOST_PIXELS)] = 16_000_000
    """Of a picture: a small file may decode to a very large one. Phones take 12 million."""
    in_flight: Count = 64
    """Pictures being worked on or waiting; one more is answered 503."""
    seconds: Seconds = 10.0
    """For receiving a picture, and again for answering."""
    rejections: Count = 100
    """For one message in 30 days, over all callers (see ``budgets``)."""
    decode_seconds: Seconds = 5.0
    """Processor time for decoding a picture, which is stopped then."""
    psnr: float | None = None
    """Of marked pictures, in decibels; None for the watermark's own."""
    drain_seconds: Seconds = 5.0
    """After SIGTERM, during which ``/readyz`` says "draining"."""
    counted_in: str = "memory://"
    """Where rates and rejections are counted: redis://HOST:PORT for several services."""

    @classmethod
    def chosen(cls, settings: Iterable[str]) -> Limits:
        """The limits that texts of the form NAME=VALUE change."""
        pairs = [setting.partition("=") for setting in settings]
        try:
            chosen = {name.strip(): value.strip() for name, _, value in pairs}
            return msgspec.convert(chosen, cls, strict=False)
        except msgspec.ValidationError as error:
            raise CoverLockError(
                f"a limit cannot be set ({error}): "
                f"use NAME=VALUE for one of {', '.join(cls.__struct_fields__)}"
            ) from None

    @property
    def buffered(self) -> int:
        """Bytes of picture files in memory."""
        return 4 * self.bytes


class Deadline:
    """When the answer to a request is due, known to the caller's side and to the worker's.

    The worker calls ``commit`` before it does anything that outlives the request (a serial, a line
    of the audit log). Whichever side comes first decides: after a commit the answer is waited for,
    and after the time is up nothing can be committed any more.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._committed = self._over = False

    @property
    def left(self) -> float:
        """Seconds that are left; a ``TimeoutError`` when there are none."""
        left = self._end - time.monotonic()
        if left <= 0 or self._over:
            raise TimeoutError
        return left

    def commit(self) -> None:
        """From here on the work is finished and answered, even if that takes longer."""
        with self._lock:
            if not self._committed:
                assert self.left
                self._committed = True

    def give_up(self) -> bool:
        """Stop waiting, unless the work was committed."""
        with self._lock:
            self._over = not self._committed
            return self._over

"""Who may ask the service, how often, and what they may be told.

A p-value tells an attacker how close a forgery came, so that callers see accepted or rejected
and nothing else unless their token says ``detail``.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal, cast, get_args

from coverlock_sdk.documents import Document, DocumentError, read_file
from coverlock_sdk.errors import AccessError
from coverlock_sdk.files import write_atomically

Scope = Literal["verify", "identify", "embed", "detail", "metrics", "resolve"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

_NAME = re.compile(r"[\w.-]{1,64}")


@dataclass(frozen=True)
class Caller:
    """A holder of a token, as the token file knows them: the token itself is not kept."""

    name: str
    sha256: str
    scopes: tuple[Scope, ...] = ("verify",)
    rate: float = 10.0
    """Requests a second, on average."""
    burst: int = 20
    """Requests that may come at once after a pause."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise AccessError(f"'{self.name}' is not a name: use up to 64 letters and digits")
        if not self.scopes or not set(self.scopes) <= set(SCOPES):
            raise AccessError(f"the scopes of '{self.name}' must be among {', '.join(SCOPES)}")
        if self.rate <= 0 or self.burst < 1:
            raise AccessError(f"'{self.name}' could never ask: rate and burst must be positive")


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
            document = Document.parsed(read_file(path))
            return cls(map(_caller, document.documents("callers")))
        except DocumentError as error:
            raise AccessError(
                f"{path} is not a token file ({error}): "
                f"make one with 'coverlock token NAME --file {path}'"
            ) from None

    def save(self, path: Path) -> None:
        """Write a token file that only its owner can read."""
        document = {"callers": [asdict(caller) for caller in self.all]}
        try:
            write_atomically(path, json.dumps(document, indent=2).encode() + b"\n", mode=0o600)
        except OSError as error:
            raise AccessError(f"{path} cannot be written ({error.strerror or error})") from None


def _caller(entry: Document) -> Caller:
    if unknown := set(entry.values) - {field.name for field in fields(Caller)}:
        raise DocumentError(f"'{min(unknown)}' needs a newer version of coverlock-sdk")
    return Caller(
        entry.text("name"),
        entry.text("sha256", 64),
        cast("tuple[Scope, ...]", tuple(entry.texts("scopes"))),
        entry.number("rate", 0, 1e12) if "rate" in entry else Caller.rate,
        entry.integer("burst") if "burst" in entry else Caller.burst,
    )


def add_token(path: Path, name: str, scopes: tuple[Scope, ...], rate: float, burst: int) -> str:
    """Make a token for ``name``, replacing the one they had, and return it: it is kept nowhere."""
    token = f"clk_{secrets.token_urlsafe(32)}"
    others = [c for c in Callers.load(path).all if c.name != name] if path.exists() else []
    Callers([*others, Caller(name, _digest(token), scopes, rate, burst)]).save(path)
    return token


MOST_BUCKETS = 100_000
"""Names that a limit remembers at once."""


class RateLimit:
    """Token buckets by name: ``burst`` at once, refilled at ``rate`` a second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._levels: dict[Hashable, tuple[float, float]] = {}

    def wait(self, name: Hashable, rate: float, burst: int, taken: int = 1) -> float:
        """Zero when one more may proceed, which then takes ``taken``; else the seconds until then.

        A bucket that is full again is forgotten, and so is the oldest of too many: strangers choose
        some of the names, and must not fill the memory with them.
        """
        with self._lock:
            now = self._clock()
            level, since = self._levels.pop(name, (float(burst), now))
            level = min(burst, level + (now - since) * rate)
            allowed = level >= 1
            level -= taken if allowed else 0
            if level < burst:
                self._levels[name] = (level, now)
            if len(self._levels) > MOST_BUCKETS:
                del self._levels[next(iter(self._levels))]  # each use puts a name last
            return 0.0 if allowed else (1 - level) / rate


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()

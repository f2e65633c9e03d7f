"""An append-only record of verdicts in which every line vouches for the one before it.

A line is a JSON object. Its ``previous`` is the SHA-256 of the line before it, so changing,
removing or inserting a line breaks the chain from there on. The chain has no key, so it does not
show a changed last line, missing lines at the end, or a rewritten log. Store the last digest
elsewhere from time to time, and ``check_chain`` finds these too.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from coverlock_sdk.documents import DocumentError, parsed
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.hookspecs import hookimpl
from coverlock_sdk.locking.verdict import Verdict

FIRST = "0" * 64
"""The ``previous`` of the first line."""

_ROOM = 16_384  # bytes that must be free on the disk
_LONGEST = 1_000_000  # bytes in a line, at most
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # a planted link could lead to any file
_TAIL = 65_536  # bytes from the end that are searched first for the last line


class AuditLog:
    """Appends verdicts to a file; several threads and processes may share it.

    Lines name the version of the ``bundle`` if it has one. The log is also a plugin:
    ``plugin_manager().add("audit-log", AuditLog(path))`` records every verdict of the process.
    """

    def __init__(self, path: str | os.PathLike[str], bundle: str | None = None) -> None:
        self.path = Path(path)
        self._about = {} if bundle is None else {"bundle": bundle}
        self._lock = threading.Lock()
        with self._opened():
            pass

    @hookimpl
    def verdict_reached(
        self, verdict: Verdict, watermark: str, hash: str | None, source: Any
    ) -> None:
        """Append one line, or raise if that fails."""
        self._record(verdict.to_dict(), watermark, hash, source)

    def row_reached(
        self, row: Mapping[str, Any], identifier: str | None, watermark: str, hash: str | None
    ) -> None:
        """Append the verdict in a report on a picture file, if it has one.

        The line names the serial or identifier that was looked for or marked.
        """
        if row["status"] == "error":
            return
        verdict = {
            "accepted": row["status"] == "accepted",
            **{field.name: row[field.name] for field in fields(Verdict) if field.name in row},
        }
        named = next((row[n] for n in ("serial", "label", "id") if row.get(n)), identifier)
        about = {name: row[name] for name in ("sha256", "out") if row.get(name)}
        self._record(verdict, watermark, hash, {"file": row["file"], "id": named, **about})

    def _record(
        self, verdict: Mapping[str, Any], watermark: str, hash: str | None, source: Any
    ) -> None:
        entry = {
            "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            "source": source,
            **self._about,
            "watermark": watermark,
            "hash": hash,
            **verdict,
        }
        with self._opened() as file:
            line = json.dumps({**entry, "previous": _last_digest(file, self.path)})
            _append(file, line.encode() + b"\n")

    def require_writable(self) -> None:
        """Raise unless a line could be appended now: the log is intact, and the disk has room."""
        with self._opened() as file:
            _last_digest(file, self.path)
            with tempfile.TemporaryFile(dir=self.path.parent) as probe:  # a name nobody can guess
                _append(probe.fileno(), bytes(_ROOM))

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """Open the file, and keep other threads and processes out of it."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | _NO_LINK
        try:
            with self._lock, contextlib.ExitStack() as stack:
                file = os.open(self.path, flags, 0o640)
                stack.callback(os.close, file)
                _lock_out_others(file)
                yield file
        except OSError as error:
            problem = f"cannot be written ({error.strerror or error})"
            if error.errno == errno.ELOOP:
                problem = "is a link: name the file that it leads to"
            raise CoverLockError(f"the audit log {self.path} {problem}") from None


def check_chain(path: str | os.PathLike[str], noted: str = FIRST) -> tuple[int, str]:
    """Return how many lines an audit log has and the digest of the last, or raise if it is broken.

    ``noted`` is a digest from an earlier call, which the chain must still contain.
    """
    expected, count, found = FIRST, 0, noted == FIRST
    for count, line in enumerate(_lines(path), start=1):
        try:
            previous = parsed(line, dict[str, Any])["previous"]
        except (DocumentError, KeyError):
            raise CoverLockError(f"line {count} of {path} is not a line of an audit log") from None
        if previous != expected:
            raise CoverLockError(
                f"the chain of {path} is broken at line {count}: "
                "a line before it was changed, removed or added"
            )
        expected = hashlib.sha256(line).hexdigest()
        found = found or expected == noted
    if not found:
        raise CoverLockError(
            f"no line of {path} has the digest {noted}: "
            "since it was noted, lines were cut off or the log was written anew"
        )
    return count, expected


def _lines(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """The lines of a file, one at a time; lines longer than we write are cut."""
    try:
        with Path(path).open("rb") as file:
            while line := file.readline(_LONGEST):
                yield line.removesuffix(b"\n")
    except (OSError, ValueError) as error:
        raise CoverLockError(f"{path} cannot be read ({error})") from None


def _append(file: int, line: bytes) -> None:
    """Write a line to the disk completely or not at all, so that no line follows half a line."""
    size = os.fstat(file).st_size
    if os.write(file, line) < len(line):
        os.ftruncate(file, size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(file)


def _last_digest(file: int, path: Path) -> str:
    """The digest of the last line, found from the end of the file."""
    size = os.fstat(file).st_size
    if size == 0:
        return FIRST
    length, tail = _TAIL, b""
    while len(tail) < size and b"\n" not in tail[:-1]:
        os.lseek(file, max(0, size - length), os.SEEK_SET)
        tail = os.read(file, length)
        length *= 2
    if not tail.endswith(b"\n"):
        raise CoverLockError(
            f"the last line of the audit log {path} is incomplete: "
            "move the file away and start anew"
        )
    return hashlib.sha256(tail[:-1].rsplit(b"\n", 1)[-1]).hexdigest()


def _lock_out_others(file: int) -> None:
    """Keep other processes out until the file is closed, if the system supports it."""
    with contextlib.suppress(ImportError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)

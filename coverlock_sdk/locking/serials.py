"""One identifier a picture: serials, and the registry that hands them out.

A serial is used once, so its codeword is a one-time pad and nothing can be learned from any number
of released pictures. That is the strong mode for short payloads, which afford few salts.
"""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from coverlock_sdk.errors import MessageError
from coverlock_sdk.locking.keys import require_text


class Serial(str):
    """An identifier of exactly one picture, such as ``order-4711/000001``.

    ``embed``, ``verify`` and ``identify`` take it like any identifier, but lock it under one
    salt: what is used once needs no others.
    """

    __slots__ = ()


class SerialRegistry:
    """The serials that were handed out, in one SQLite file that many processes may share."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with self._connection() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS serials (serial TEXT PRIMARY KEY, identifier TEXT, "
                "number INTEGER, created TEXT, picture TEXT)"
            )

    def issue(self, identifier: str, picture: str | None = None, random: bool = False) -> Serial:
        """A new serial of ``identifier``: the next number, or a ``random`` one.

        ``picture`` notes what it is for. No two callers get the same serial.
        """
        created = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            [[last]] = connection.execute(
                "SELECT COALESCE(MAX(number), 0) FROM serials WHERE identifier = ?",
                (require_text(identifier),),
            ).fetchall()
            if not isinstance(last, int):
                raise sqlite3.DatabaseError("its numbers are none")
            ending = secrets.token_hex(8) if random else f"{last + 1:06}"
            serial = Serial(f"{identifier}/{ending}")
            connection.execute(
                "INSERT INTO serials VALUES (?, ?, ?, ?, ?)",
                (serial, identifier, last + 1, created, picture),
            )
        return serial

    def serials(self, identifier: str | None = None) -> list[Serial]:
        """All serials, or those of one ``identifier``, in the order they were handed out."""
        return [Serial(require_text(str(row["serial"]))) for row in self.rows(identifier)]

    def rows(self, identifier: str | None = None) -> list[dict[str, Any]]:
        """Everything that is known of each serial, as plain values."""
        condition = "" if identifier is None else "WHERE identifier = ?"
        values = () if identifier is None else (identifier,)
        with self._connection() as connection:
            cursor = connection.execute(
                f"SELECT * FROM serials {condition} ORDER BY identifier, number", values
            )
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A connection of one's own, so that threads and processes do not share any."""
        try:
            connection = sqlite3.connect(self.path, timeout=60)
            with contextlib.closing(connection), connection:
                yield connection
        except (sqlite3.Error, ValueError) as error:  # a NUL in its name is a ValueError
            raise MessageError(
                f"the registry of serials {self.path} cannot be used ({error}): "
                "name another file, or make this one writable"
            ) from None

"""The registry: remembers marked pictures in one SQLite file that many processes may share.

It hands out serials and remembers the long code of every marked picture, about 160 bytes, so that
verification can check whether a picture is the one that was marked. 64 payload bits cannot tell a
forgery at a cosine of 0.85 from a genuine picture at 0.98; a thousand remembered bits can.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Bits, Logits
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.errors import RegistryError
from coverlock_sdk.files import make_private
from coverlock_sdk.frames import WHOLE, Frame
from coverlock_sdk.hashing.views import View
from coverlock_sdk.locking.keys import Key, require_text
from coverlock_sdk.locking.registration import Search
from coverlock_sdk.locking.secret_rotations import LongCode, split_bands

LEAST_LIKENESS = 0.88
"""The share of each band of the long code that must agree: a cosine of about 0.93."""

TOGETHER = 4096
"""Number of records in memory at once during a search through all of them."""

ALIKE = 0.75
"""Warn about another picture in the registry if at least this share agrees."""


@dataclass(frozen=True)
class Likeness:
    """How similar a picture is to one that was marked."""

    least: float
    """The agreeing share of the band that agrees least."""
    frame: Frame = WHOLE

    @property
    def accepted(self) -> bool:
        """Whether it is the same picture."""
        return self.least >= LEAST_LIKENESS


class Registry:
    """Serials and long codes of marked pictures. Safe to share between threads and processes."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with self._connection(make_private) as connection:
            connection.executescript(
                "CREATE TABLE IF NOT EXISTS pictures (name TEXT, key TEXT, hash TEXT, code BLOB, "
                "created TEXT);"
                "CREATE INDEX IF NOT EXISTS by_name ON pictures (name, key);"
                "CREATE TABLE IF NOT EXISTS serials (serial TEXT PRIMARY KEY, identifier TEXT, "
                "number INTEGER, created TEXT, picture TEXT);"
            )

    def issue(self, identifier: str, picture: str | None = None) -> str:
        """A new serial of ``identifier``, such as ``order-4711/000001``, for ``picture``."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            [[last]] = connection.execute(
                "SELECT COALESCE(MAX(number), 0) FROM serials WHERE identifier = ?",
                (require_text(identifier),),
            ).fetchall()
            if not isinstance(last, int):
                raise sqlite3.DatabaseError("a serial has no number")
            serial = f"{identifier}/{last + 1:06}"
            connection.execute(
                "INSERT INTO serials VALUES (?, ?, ?, ?, ?)",
                (serial, identifier, last + 1, _now(), picture),
            )
        return serial

    def issued(self, identifier: str, picture: str) -> str | None:
        """The serial of ``identifier`` that was last handed out for ``picture``, if any."""
        query = "SELECT serial FROM serials WHERE identifier = ? AND picture = ? ORDER BY number"
        with self._connection() as connection:
            rows = connection.execute(query, (identifier, picture)).fetchall()
        return str(rows[-1][0]) if rows else None

    def remember(self, name: str, key: Key, image_hash: ImageHash, code: Logits) -> None:
        """Remember the long code of a picture with code (dimensions,), marked as ``name``."""
        bits = LongCode.of(key, image_hash.bands).bits(code[None])[0]
        with self._connection() as connection:
            connection.execute(
                "INSERT INTO pictures VALUES (?, ?, ?, ?, ?)",
                (name, key.fingerprint, image_hash.name, np.packbits(bits).tobytes(), _now()),
            )

    def names(self) -> list[str]:
        """The names of all pictures that were marked."""
        with self._connection() as connection:
            rows = connection.execute("SELECT DISTINCT name FROM pictures").fetchall()
        return [str(name) for [name] in rows]

    def found(
        self,
        key: Key,
        image_hash: ImageHash,
        description: Any,
        aspect: Callable[[], float],
        name: str | None = None,
        thorough: bool = False,
    ) -> tuple[str, Likeness] | None:
        """The name of the most similar remembered picture, and how similar it is.

        With ``name``, only pictures of that name are compared. If the hash supports registration,
        every frame is tried. This does not look at the payload, so p-values need no correction.
        ``thorough`` tries the frames even if the whole picture already matches.
        """
        names, codes, long = self._remembered(key, image_hash, name)
        best: tuple[str, Likeness] | None = None
        for start in range(0, len(names), TOGETHER):
            part = np.unpackbits(codes[start : start + TOGETHER], axis=1)
            likeness, row = _most_alike(long, image_hash, description, aspect, part, thorough)
            if best is None or likeness.least > best[1].least:
                best = names[start + row], likeness
        return best

    def alike(self, key: Key, image_hash: ImageHash, code: Logits) -> tuple[str, float] | None:
        """The remembered picture most similar to a code (dimensions,), if it deserves a warning."""
        names, codes, long = self._remembered(key, image_hash)
        if not names:
            return None
        shares = long.likeness(code[None], np.unpackbits(codes, axis=1)).min(axis=1)
        best = int(shares.argmax())
        return (names[best], float(shares[best])) if shares[best] >= ALIKE else None

    def _remembered(
        self, key: Key, image_hash: ImageHash, name: str | None = None
    ) -> tuple[list[str], Bits, LongCode]:
        """Names and packed codes of pictures marked with a key: all, or those of one name."""
        query = "SELECT name, code FROM pictures WHERE key = ? AND hash = ?"
        values = [key.fingerprint, image_hash.name]
        if name is not None:
            query, values = f"{query} AND name = ?", [*values, name]
        with self._connection() as connection:
            rows = connection.execute(query, values).fetchall()
        long = LongCode.of(key, image_hash.bands)
        size = sum(long.widths) // 8
        if any(not isinstance(code, bytes) or len(code) != size for _, code in rows):
            raise RegistryError(
                f"the registry {self.path} has a damaged code: restore it from a backup"
            )
        packed = np.frombuffer(b"".join(code for _, code in rows), dtype=np.uint8)
        return [str(each) for each, _ in rows], packed.reshape(-1, size), long

    @contextlib.contextmanager
    def _connection(
        self, prepare: Callable[[Path], None] = lambda path: None
    ) -> Iterator[sqlite3.Connection]:
        """A new connection, because threads and processes must not share one."""
        try:
            prepare(self.path)
            connection = sqlite3.connect(self.path, timeout=60)
            with contextlib.closing(connection), connection:
                yield connection
        except (sqlite3.Error, ValueError, OSError) as error:  # a NUL in its name is a ValueError
            raise RegistryError(
                f"the registry {self.path} cannot be used ({error}): "
                "name another file, or make this one writable"
            ) from None


def as_registry(registry: str | Path | Registry | None) -> Registry | None:
    """Turn None, a registry or its file, created if missing, into a registry."""
    return registry if registry is None or isinstance(registry, Registry) else Registry(registry)


def _most_alike(
    long: LongCode,
    image_hash: ImageHash,
    description: Any,
    aspect: Callable[[], float],
    codes: Bits,
    thorough: bool,
) -> tuple[Likeness, int]:
    """The most similar of the remembered ``codes``, and how similar it is."""
    whole = long.likeness(image_hash.code(description), codes).min(axis=1)
    best = int(whole.argmax())
    found = Likeness(float(whole[best]))
    if not image_hash.registers or (found.accepted and not thorough):
        return found, best
    search = Search(image_hash, View(description, aspect()), _Records(long, codes))
    for frame, _, row in search.best():
        shares = long.likeness(image_hash.code(description, frame), codes[row : row + 1])
        here = Likeness(float(shares.min()), frame)
        if not found.accepted and here.least > found.least:
            found, best = here, row
    return found, best


class _Records:
    """The signs of the numbers of remembered pictures, record by record."""

    def __init__(self, long: LongCode, codes: Bits) -> None:
        self._directions = long.directions
        self.signs: list[Logits] = [
            2 * part.astype(np.float32) - 1 for part in split_bands(codes, long.widths)
        ]
        self.sure: list[Logits] = [np.ones_like(part) for part in self.signs]

    def every(self, codes: Logits, band: int) -> Logits:
        """The fit to every record; large numbers count the same."""
        return np.clip(2 * (codes @ self._directions[band]), -1, 1) @ self.signs[band].T

    def numbers(self, codes: Logits, rows: npt.NDArray[np.intp], band: int) -> Logits:
        """The same numbers for every record."""
        return codes @ self._directions[band]


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

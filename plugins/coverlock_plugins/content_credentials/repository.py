"""Stores manifests, and finds them by serial or by fingerprint.

The repository is a folder with one SQLite file, which is also the registry of marked pictures, and
one file per manifest store, named by its digest. A store is written before its database entry, so
every entry has a complete file.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal, NamedTuple

from coverlock_plugins.content_credentials import ProvenanceError
from coverlock_plugins.content_credentials.soft_bindings import SoftBindings
from coverlock_sdk import Registry
from coverlock_sdk.documents import read_file
from coverlock_sdk.files import make_private, write_atomically

_TABLE = """
CREATE TABLE IF NOT EXISTS manifests (
    number INTEGER PRIMARY KEY,
    manifest TEXT NOT NULL UNIQUE,
    serial TEXT NOT NULL UNIQUE,
    watermark TEXT NOT NULL,
    hash TEXT NOT NULL,
    key TEXT,
    fingerprint BLOB NOT NULL,
    payload BLOB NOT NULL,
    sha256 TEXT NOT NULL,
    created TEXT NOT NULL
)
"""


@dataclass(frozen=True)
class Entry:
    """What the database knows about one manifest."""

    manifest: str
    bindings: SoftBindings
    sha256: str


class Look(NamedTuple):
    """The part of an entry that look-ups search; there may be millions of entries."""

    number: int
    """Entries are numbered in the order they arrived, and never change."""
    watermark: str
    hash: str
    key: str | None
    fingerprint: bytes
    payload: bytes
    """The bits that the decoder read from the signed picture; they reveal a transplanted mark."""


class ManifestRepository:
    """Manifests in a folder that many processes may share."""

    def __init__(self, folder: str | Path, create: bool = False) -> None:
        self.folder = Path(folder)
        self._database = self.folder / "repository.db"
        if not create and not self._database.exists():
            raise ProvenanceError(
                f"{self.folder} is not a manifest repository: 'coverlock c2pa sign' makes one"
            )
        with self._explained():
            (self.folder / "manifests").mkdir(parents=True, exist_ok=True)
            make_private(self._database)
        with self._connection() as connection:
            connection.execute(_TABLE)
        self.registry = Registry(self._database)
        """Gives the pictures signed here their serials, and remembers their long codes."""

    def add(self, store: bytes, manifest: str, bindings: SoftBindings, payload: bytes) -> None:
        """Keep the manifest store of a picture whose decoder reads ``payload``, as bytes of bits.

        The database refuses a serial that another manifest claims.
        """
        digest = hashlib.sha256(store).hexdigest()
        created = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        with self._connection() as connection:
            write_atomically(self._path(digest), store)
            connection.execute(
                "INSERT INTO manifests VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (manifest, *astuple(bindings), payload, digest, created),
            )

    def entry(self, by: Literal["number", "manifest", "serial"], value: str | int) -> Entry | None:
        """The entry with this number, this manifest label, or this serial."""
        with self._connection() as connection:
            row = connection.execute(
                "SELECT manifest, sha256, serial, watermark, hash, key, fingerprint "
                f"FROM manifests WHERE {by} = ?",
                (value,),
            ).fetchone()
        return Entry(row[0], SoftBindings(*row[2:]), row[1]) if row else None

    def looks(self, after: int = 0) -> list[Look]:
        """What look-ups need from all entries after the one with this number."""
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT number, watermark, hash, key, fingerprint, payload FROM manifests "
                "WHERE number > ? ORDER BY number",
                (after,),
            )
            return [Look(*row) for row in rows]

    def content(self, entry: Entry) -> bytes:
        """The manifest store of an entry; a file that was changed on disk is refused."""
        path = self._path(entry.sha256)
        content = read_file(path)
        if hashlib.sha256(content).hexdigest() != entry.sha256:
            raise ProvenanceError(
                f"{path} was changed after it was added: restore the file of the manifest "
                f"{entry.manifest} from a backup"
            )
        return content

    def _path(self, digest: str) -> Path:
        return self.folder / "manifests" / f"{digest}.c2pa"

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A new connection, because threads and processes must not share one."""
        with self._explained():
            connection = sqlite3.connect(self._database, timeout=60)
            with contextlib.closing(connection), connection:
                yield connection

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise ProvenanceError(
                f"the repository {self.folder} cannot be used ({error})"
            ) from None

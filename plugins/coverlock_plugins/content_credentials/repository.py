"""Where manifests are kept, and found again by serial or by fingerprint.

A folder with one SQLite file, which is also the registry of the marked pictures, and one file for
each manifest store, named by its digest. A store is written before the database tells of it, so
whatever is found was written whole.
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
from coverlock_sdk.documents import read_file
from coverlock_sdk.files import make_private, write_atomically
from coverlock_sdk.locking.registry import Registry

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
    """What the database knows of one manifest."""

    manifest: str
    bindings: SoftBindings
    sha256: str


class Look(NamedTuple):
    """The part of an entry that look-ups go through; there may be millions of entries."""

    number: int
    """Entries are numbered in the order they came, and none ever changes."""
    watermark: str
    hash: str
    key: str | None
    fingerprint: bytes
    payload: bytes
    """The bits that the decoder read from the signed picture; they tell a transplanted mark."""


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
        """Numbers the pictures that are signed here, and remembers their long codes."""

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
        """The entry of this number, of the manifest with this label, or with this serial."""
        with self._connection() as connection:
            row = connection.execute(
                "SELECT manifest, sha256, serial, watermark, hash, key, fingerprint "
                f"FROM manifests WHERE {by} = ?",
                (value,),
            ).fetchone()
        return Entry(row[0], SoftBindings(*row[2:]), row[1]) if row else None

    def looks(self, after: int = 0) -> list[Look]:
        """What look-ups need of all entries that came after the one of this number."""
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT number, watermark, hash, key, fingerprint, payload FROM manifests "
                "WHERE number > ? ORDER BY number",
                (after,),
            )
            return [Look(*row) for row in rows]

    def content(self, entry: Entry) -> bytes:
        """The manifest store of an entry; a file that was altered on disk is refused."""
        path = self._path(entry.sha256)
        content = read_file(path)
        if hashlib.sha256(content).hexdigest() != entry.sha256:
            raise ProvenanceError(
                f"{path} was altered since it was added: restore the file of the manifest "
                f"{entry.manifest} from a backup"
            )
        return content

    def _path(self, digest: str) -> Path:
        return self.folder / "manifests" / f"{digest}.c2pa"

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A connection of one's own, so that threads and processes do not share any."""
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

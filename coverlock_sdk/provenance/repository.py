"""Where manifests are kept, and found again by serial or by fingerprint.

A folder with one SQLite file and one file for each manifest store, named by its digest. A store is
written before the database tells of it, so whatever is found was written whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

from coverlock_sdk.errors import ProvenanceError
from coverlock_sdk.files import write_atomically
from coverlock_sdk.locking.registry import Registry
from coverlock_sdk.provenance.manifests import HARD_BINDINGS, Manifest, read_store
from coverlock_sdk.provenance.soft_bindings import SoftBindings

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

    number: int
    """Entries are numbered in the order they came, and none ever changes."""
    manifest: str
    bindings: SoftBindings
    payload: bytes
    """The bits that the decoder read from the signed picture; they tell a transplanted mark."""
    sha256: str


class Look(NamedTuple):
    """The part of an entry that look-ups go through, of which there may be millions."""

    number: int
    watermark: str
    hash: str
    key: str | None
    fingerprint: bytes
    payload: bytes


class ManifestRepository:
    """Manifests in a folder that many processes may share."""

    def __init__(self, folder: str | Path, create: bool = False) -> None:
        self.folder = Path(folder)
        self._database = self.folder / "repository.db"
        if not create and not self._database.exists():
            raise ProvenanceError(
                f"{self.folder} is not a manifest repository: 'coverlock c2pa sign' makes one"
            )
        try:
            (self.folder / "manifests").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ProvenanceError(
                f"{self.folder} cannot be written ({error.strerror or error})"
            ) from None
        with self._connection() as connection:
            connection.execute(_TABLE)
        self.serials = Registry(self._database)
        """Hands out the serials of pictures that are signed here."""

    def add(self, store: bytes, payload: bytes) -> Manifest:
        """Keep a manifest store; a serial that another manifest claims is refused.

        ``payload`` is what the decoder reads from the signed picture, as bytes of bits.
        """
        manifest = read_store(store)
        if problem := manifest.problem(expected=HARD_BINDINGS):
            raise ProvenanceError(problem)
        bindings = manifest.bindings
        digest = hashlib.sha256(store).hexdigest()
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            self._refuse_second_claim(connection, manifest.id, bindings.serial)
            self._write(digest, store)
            connection.execute(
                "INSERT INTO manifests VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    manifest.id,
                    bindings.serial,
                    bindings.watermark,
                    bindings.hash,
                    bindings.key,
                    bindings.fingerprint,
                    payload,
                    digest,
                    datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                ),
            )
        return manifest

    def of_serial(self, serial: str) -> Entry | None:
        """The entry of the only manifest with this serial."""
        return next(iter(self._entries("WHERE serial = ?", serial)), None)

    def of_manifest(self, manifest: str) -> Entry | None:
        """The entry of the manifest with this label."""
        return next(iter(self._entries("WHERE manifest = ?", manifest)), None)

    def of_number(self, number: int) -> Entry:
        """The entry of this number, which there is."""
        [entry] = self._entries("WHERE number = ?", number)
        return entry

    def content(self, entry: Entry) -> bytes:
        """The manifest store of an entry; a file that was altered on disk is refused."""
        path = self._path(entry.sha256)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ProvenanceError(f"{path} cannot be read ({error.strerror or error})") from None
        if hashlib.sha256(content).hexdigest() != entry.sha256:
            raise ProvenanceError(
                f"{path} was altered since it was added: restore the file of the manifest "
                f"{entry.manifest} from a backup"
            )
        return content

    def entries(self) -> list[Entry]:
        """All entries, in the order they came."""
        return self._entries("WHERE number > ?", 0)

    def looks(self, after: int) -> list[Look]:
        """What look-ups need of all entries that came after the one of this number."""
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT number, watermark, hash, key, fingerprint, payload FROM manifests "
                "WHERE number > ? ORDER BY number",
                (after,),
            )
            return [Look(*row) for row in rows]

    def merge(self, other: ManifestRepository) -> int:
        """Add what ``other`` has and this one has not; how many manifests that were."""
        known = {entry.manifest for entry in self.entries()}
        missing = [entry for entry in other.entries() if entry.manifest not in known]
        for entry in missing:
            self.add(other.content(entry), entry.payload)
        return len(missing)

    def _entries(self, condition: str, value: str | int) -> list[Entry]:
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT number, manifest, serial, watermark, hash, key, fingerprint, payload, "
                f"sha256 FROM manifests {condition} ORDER BY number",
                (value,),
            ).fetchall()
        return [
            Entry(
                number=row[0],
                manifest=row[1],
                bindings=SoftBindings(*row[2:7]),
                payload=row[7],
                sha256=row[8],
            )
            for row in rows
        ]

    def _refuse_second_claim(
        self, connection: sqlite3.Connection, manifest: str, serial: str
    ) -> None:
        row = connection.execute(
            "SELECT manifest, serial FROM manifests WHERE serial = ? OR manifest = ?",
            (serial, manifest),
        ).fetchone()
        if row is None:
            return
        if row[0] == manifest:
            raise ProvenanceError(f"the manifest {manifest} is in {self.folder} already")
        raise ProvenanceError(
            f"the manifests {row[0]} and {manifest} both claim the serial '{serial}': a serial "
            "stands for one picture, so the second one is refused"
        )

    def _write(self, digest: str, store: bytes) -> None:
        path = self._path(digest)
        try:
            write_atomically(path, store)
        except OSError as error:
            raise ProvenanceError(f"{path} cannot be written ({error.strerror or error})") from None

    def _path(self, digest: str) -> Path:
        return self.folder / "manifests" / f"{digest}.c2pa"

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A connection of one's own, so that threads and processes do not share any."""
        try:
            connection = sqlite3.connect(self._database, timeout=60)
            with contextlib.closing(connection), connection:
                yield connection
        except sqlite3.Error as error:
            raise ProvenanceError(
                f"the repository {self.folder} cannot be used ({error})"
            ) from None

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
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from coverlock_plugins.content_credentials.errors import ProvenanceError
from coverlock_plugins.content_credentials.lookups import Look
from coverlock_plugins.content_credentials.manifests import HARD_BINDINGS, Manifest, read_store
from coverlock_plugins.content_credentials.soft_bindings import SoftBindings
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

    number: int
    """Entries are numbered in the order they came, and none ever changes."""
    manifest: str
    bindings: SoftBindings
    payload: bytes
    """The bits that the decoder read from the signed picture; they tell a transplanted mark."""
    sha256: str


@dataclass(frozen=True)
class Merged:
    """What came of merging another repository."""

    added: int
    skipped: tuple[str, ...]
    """Why manifests were left out, a sentence each."""


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
            make_private(self._database)
        except OSError as error:
            raise ProvenanceError(
                f"{self.folder} cannot be written ({error.strerror or error})"
            ) from None
        with self._connection() as connection:
            connection.execute(_TABLE)
        self.registry = Registry(self._database)
        """Numbers the pictures that are signed here, and remembers their long codes."""

    def add(self, store: bytes, payload: bytes, trust: bytes | None) -> Manifest:
        """Keep a manifest store; a serial that another manifest claims is refused.

        ``payload`` is what the decoder reads from the signed picture, as bytes of bits. ``trust``
        holds the certificates of those who may sign, in PEM format; it is None only for what this
        process has just signed itself.
        """
        manifest = read_store(store, trust)
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

    def merge(self, other: ManifestRepository, trust: bytes) -> Merged:
        """Add the manifests of ``other`` that this one lacks, if they are signed by the trusted.

        A manifest that cannot be used, has an unknown signer or claims a serial that is taken is
        skipped.
        """
        known = {entry.manifest for entry in self.entries()}
        added, skipped = 0, []
        for entry in other.entries():
            if entry.manifest in known:
                continue
            try:
                self.add(other.content(entry), entry.payload, trust)
                self._remember_from(other, entry.bindings.serial)
                added += 1
            except ProvenanceError as error:
                skipped.append(str(error))
        return Merged(added, tuple(skipped))

    def _remember_from(self, other: ManifestRepository, serial: str) -> None:
        """Take over what another registry remembers of the picture with this serial."""
        with self._connection() as connection:
            connection.execute("ATTACH ? AS other", (str(other._database),))
            connection.execute(
                "INSERT INTO pictures SELECT * FROM other.pictures WHERE name = ?", (serial,)
            )

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

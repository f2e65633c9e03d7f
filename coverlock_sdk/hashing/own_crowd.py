"""One's own crowd: codes of the pictures that a lock was given, in memory or also in a file.

Forgeries between pictures of one template concern whoever marks many of them, and who does has
their codes at hand. What is kept of a picture is its code and a digest of its pixels, nothing else.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np

from coverlock_sdk.arrays import Logits
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.errors import CrowdFileError
from coverlock_sdk.hashing.crowd import Crowd, identity_of, same_weights
from coverlock_sdk.images.picture import Picture

MOST = 100_000
"""Codes that are in memory, the newest: 4 MB, compared in a few milliseconds."""

DIGEST_BYTES = 8


class Trace(NamedTuple):
    """What is kept of a picture."""

    digest: bytes
    """Of its pixels: a picture that comes again is no lookalike of itself."""
    code: bytes

    @classmethod
    def of(cls, picture: Picture, hash_logits: Logits) -> Trace:
        """The trace of a picture whose hash logits are (256,)."""
        pixels = np.ascontiguousarray(picture.layers())
        digest = blake2b(repr((pixels.shape, pixels.dtype.str)).encode(), digest_size=DIGEST_BYTES)
        digest.update(pixels.data)
        return cls(digest.digest(), np.packbits(hash_logits > 0).tobytes())


class OwnCrowd:
    """Traces of the pictures that were given to a lock. Safe to share between threads.

    An opened one is also in an SQLite file, which many processes may share.
    """

    def __init__(self) -> None:
        self.path: Path | None = None
        self._lock = threading.Lock()
        self._digests = np.empty(0, dtype=np.uint64)
        self._codes = np.empty((0, 32), dtype=np.uint8)
        self._last_row = 0

    @classmethod
    def open(cls, path: str | Path, image_hash: ImageHash) -> OwnCrowd:
        """The crowd in a file of codes of ``image_hash``; the file is made if it is not there."""
        crowd = cls()
        crowd.path = Path(path)
        crowd._require_hash(image_hash)
        crowd._read()
        return crowd

    def __len__(self) -> int:
        return len(self._digests)

    def add(self, traces: Sequence[Trace]) -> None:
        """Keep what is not there yet, and learn what other processes have added to the file."""
        with self._lock:
            new = {trace.digest: trace for trace in traces if not self._has(trace)}
            if self.path is None:
                self._keep(list(new.values()))
                return
            if new:
                with self._connection() as connection:
                    connection.executemany(
                        "INSERT OR IGNORE INTO pictures (digest, code) VALUES (?, ?)", new.values()
                    )
            self._read()

    def traces(self) -> list[Trace]:
        """All that is in memory."""
        with self._lock:
            pairs = zip(self._digests, self._codes, strict=True)
            return [Trace(digest.tobytes(), code.tobytes()) for digest, code in pairs]

    def others(self, trace: Trace) -> Crowd:
        """The codes of all pictures but the one that ``trace`` is of."""
        with self._lock:
            codes = self._codes[self._digests != _number(trace.digest)]
        return Crowd(codes, np.zeros(len(codes), np.uint8), ("own",), np.zeros(32, np.uint8))

    def _has(self, trace: Trace) -> bool:
        return bool((self._digests == _number(trace.digest)).any())

    def _keep(self, traces: Sequence[Trace]) -> None:
        if not traces:
            return
        digests = np.frombuffer(b"".join(trace.digest for trace in traces), np.uint64)
        codes = np.frombuffer(b"".join(trace.code for trace in traces), np.uint8).reshape(-1, 32)
        self._digests = np.concatenate([self._digests, digests])[-MOST:]
        self._codes = np.concatenate([self._codes, codes])[-MOST:]

    def _read(self) -> None:
        """Take over the rows that the file has got since it was read."""
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT id, digest, code FROM pictures WHERE id > ? ORDER BY id DESC LIMIT ?",
                (self._last_row, MOST),
            ).fetchall()[::-1]
            if any(len(digest) != DIGEST_BYTES or len(code) != 32 for _, digest, code in rows):
                raise sqlite3.DatabaseError("its codes have another length")
        if rows:
            self._last_row = rows[-1][0]
            self._keep([Trace(digest, code) for _, digest, code in rows])

    def _require_hash(self, image_hash: ImageHash) -> None:
        """Make the file if it is not there, and refuse one that has codes of another hash."""
        probe = identity_of(image_hash)
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS pictures "
                "(id INTEGER PRIMARY KEY, digest BLOB UNIQUE, code BLOB)"
            )
            connection.execute("CREATE TABLE IF NOT EXISTS hash (probe BLOB)")
            rows = connection.execute("SELECT probe FROM hash").fetchall()
            if not rows:
                connection.execute("INSERT INTO hash VALUES (?)", (probe.tobytes(),))
            elif not same_weights(np.frombuffer(rows[0][0], np.uint8), probe):
                raise CrowdFileError(
                    f"{self.path} has codes of another hash than '{image_hash.name}': name another "
                    "file, which is made if it is not there"
                )

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A connection of one's own, so that threads and processes do not share any."""
        assert self.path is not None
        try:
            connection = sqlite3.connect(self.path, timeout=60)
            with contextlib.closing(connection), connection:
                yield connection
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise CrowdFileError(
                f"the codes in {self.path} cannot be used ({error}): name another file, or make "
                "this one writable"
            ) from None


def _number(digest: bytes) -> np.uint64:
    number: np.uint64 = np.frombuffer(digest, np.uint64)[0]
    return number

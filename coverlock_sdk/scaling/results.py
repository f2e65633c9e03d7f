"""Results as a folder of Parquet files, each written completely or not at all."""

from __future__ import annotations

import io
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from coverlock_sdk.documents import Document, DocumentError, read_file
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.files import write_atomically
from coverlock_sdk.hashing.frames import Frame
from coverlock_sdk.scaling.job import Row

ROWS_PER_FILE = 10_000
SECONDS_PER_WRITE = 5.0
"""What is lost when a driver is killed is no more than this much of its work."""

JOB = "job.json"
"""The file beside the results that holds the terms of their job."""

RESULTS = pa.schema(
    [
        ("file", pa.string()),
        ("id", pa.string()),
        ("status", pa.string()),
        ("p_value", pa.float64()),
        ("matches", pa.int32()),
        ("bits", pa.int32()),
        ("fpr", pa.float64()),
        ("rule", pa.string()),
        ("agreement", pa.float64()),
        ("floor", pa.float64()),
        ("likeness", pa.float64()),
        ("frame", pa.struct([(name, pa.float64()) for name in Frame._fields])),
        ("key_id", pa.string()),
        ("reason", pa.string()),
        ("sha256", pa.string()),
        ("error", pa.string()),
    ]
)


def result_table(rows: Iterable[Row]) -> pa.Table:
    """Reports on pictures; what is not in the schema is left out."""
    return pa.Table.from_pylist(list(rows), schema=RESULTS)


Key = tuple[str, str | None]
"""What a row is about: a picture by name, and the identifier where each picture has its own."""


class Results:
    """The results of one job, which may have been begun before.

    A picture is in them once for each identifier that was looked for in it. ``terms`` tell jobs
    apart: a folder that holds the results of another one is refused.
    """

    def __init__(
        self, folder: Path, terms: Mapping[str, Any], rows_per_file: int = ROWS_PER_FILE
    ) -> None:
        self.folder = folder
        self.terms = dict(terms)
        self.rows_per_file = rows_per_file
        self._waiting: list[Row] = []
        self._growing: Path | None = None
        self._written = time.monotonic()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CoverLockError(f"{folder} cannot be made ({error.strerror or error})") from None
        self._refuse_other_jobs()
        self._known: set[Key] = set()
        self._failed: dict[Key, Path] = {}
        for part in self._parts():
            for key, status in zip(*_keys_and_statuses(part), strict=True):
                if status == "error":
                    self._failed[key] = part
                else:
                    self._known.add(key)

    def done(self) -> set[Key]:
        """What need not be done again: everything but errors, which may have been temporary."""
        return set(self._known)

    def counts(self) -> dict[str, int]:
        """How many pictures were accepted, rejected, or could not be verified."""
        found = Counter(status for part in self._parts() for status in _keys_and_statuses(part)[1])
        return {status: found[status] for status in ("accepted", "rejected", "error")}

    def add(self, rows: list[Row]) -> None:
        """Take rows; one that is there already is dropped, unless it replaces an earlier error."""
        for row in rows:
            key = _key(row)
            if key not in self._known:
                self._known.add(key)
                self._waiting.append(row)
        while len(self._waiting) >= self.rows_per_file:
            self._store(self._waiting[: self.rows_per_file])
            del self._waiting[: self.rows_per_file]
            self._growing = None
        if self._waiting and time.monotonic() - self._written >= SECONDS_PER_WRITE:
            self._store(self._waiting)

    def __enter__(self) -> Results:
        """Begin or resume: from here on the folder belongs to this job."""
        if not (self.folder / JOB).exists():
            self._write(self.folder / JOB, json.dumps(self.terms, indent=2).encode() + b"\n")
        return self

    def __exit__(self, *error: object) -> None:
        """Write what is left, also when the job was interrupted: it is finished work."""
        if self._waiting:
            self._store(self._waiting)
            self._waiting = []

    def _refuse_other_jobs(self) -> None:
        remedy = "choose another folder with --out"
        path = self.folder / JOB
        if not path.exists():
            if self._parts():
                raise CoverLockError(
                    f"{self.folder} holds results of an unknown job (it has no {JOB}): {remedy}"
                )
            return
        try:
            terms = Document.parsed(read_file(path)).values
        except DocumentError as error:
            raise CoverLockError(f"{path} does not describe a job ({error}): {remedy}") from None
        names = sorted({*terms, *self.terms})
        differing = [name for name in names if terms.get(name) != self.terms.get(name)]
        if differing:
            raise CoverLockError(
                f"{self.folder} holds the results of another job "
                f"(differing in {', '.join(differing)}): {remedy}"
            )

    def _parts(self) -> list[Path]:
        return sorted(self.folder.glob("part-*.parquet"))

    def _store(self, rows: list[Row]) -> None:
        """Write rows as a file, after taking out the errors that they replace.

        In this order, because what is missing after a crash is done again, and a double is not. A
        file that is not full grows: it is written anew with every row that waits.
        """
        keys = {_key(row) for row in rows}
        for part in {self._failed.pop(key) for key in keys & self._failed.keys()}:
            self._take_out(keys, part)
        if self._growing is None:
            parts = self._parts()
            number = int(parts[-1].stem.removeprefix("part-")) + 1 if parts else 0
            self._growing = self.folder / f"part-{number:06}.parquet"
        self._write(self._growing, _file(result_table(rows)))
        self._written = time.monotonic()

    def _take_out(self, keys: set[Key], part: Path) -> None:
        table = _table(part)
        kept = table.filter([_key(row) not in keys for row in table.to_pylist()])
        self._write(part, _file(kept))

    def _write(self, path: Path, content: bytes) -> None:
        try:
            write_atomically(path, content)
        except OSError as error:
            raise CoverLockError(f"{path} cannot be written ({error.strerror or error})") from None


def _key(row: Row) -> Key:
    return row["file"], row.get("id")


def _file(table: pa.Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def _table(part: Path, columns: list[str] | None = None) -> pa.Table:
    try:
        with pq.ParquetFile(part) as file:  # read_table takes a folder run=1/ for a column
            return file.read(columns)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CoverLockError(f"{part} is not a file of results ({error})") from None


def _keys_and_statuses(part: Path) -> tuple[list[Key], list[str]]:
    table = _table(part, ["file", "id", "status"])
    return [_key(row) for row in table.to_pylist()], table.column("status").to_pylist()

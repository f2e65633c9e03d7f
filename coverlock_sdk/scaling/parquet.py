"""Results as a folder of Parquet files, of which each appears whole or not at all."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.pictures import write_atomically
from coverlock_sdk.scaling.job import Row

ROWS_PER_FILE = 10_000

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
        ("key_id", pa.string()),
        ("locked", pa.bool_()),
        ("error", pa.string()),
    ]
)


PICTURES = pa.schema(
    [("file", pa.string()), ("path", pa.string()), ("bytes", pa.binary()), ("id", pa.string())]
)


def picture_table(rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Pictures to verify: a name, a path or the bytes of a file, and maybe an identifier."""
    return pa.Table.from_pylist(list(rows), schema=PICTURES)


def result_table(rows: Iterable[Row]) -> pa.Table:
    """Reports on pictures; what is not in the schema is left out."""
    return pa.Table.from_pylist(list(rows), schema=RESULTS)


class Results:
    """The results of a job, which may have been begun before.

    A picture is in them once for each identifier that was looked for in it.
    """

    def __init__(self, folder: Path, rows_per_file: int = ROWS_PER_FILE) -> None:
        self.folder = folder
        self.rows_per_file = rows_per_file
        self._waiting: list[Row] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CoverLockError(f"{folder} cannot be made ({error.strerror or error})") from None
        self._known = set(zip(self._read("file"), self._read("id"), strict=True))

    def done(self) -> set[tuple[str, str | None]]:
        """What is done: pictures by name, and the identifier of each where it has its own."""
        return set(self._known)

    def counts(self) -> dict[str, int]:
        """How many pictures were accepted, rejected, or could not be verified."""
        found = Counter(self._read("status"))
        return {status: found[status] for status in ("accepted", "rejected", "error")}

    def add(self, rows: list[Row]) -> None:
        """Take rows; those that are there already are dropped."""
        for row in rows:
            key = (row["file"], row.get("id"))
            if key not in self._known:
                self._known.add(key)
                self._waiting.append(row)
        while len(self._waiting) >= self.rows_per_file:
            self._write(self._waiting[: self.rows_per_file])
            del self._waiting[: self.rows_per_file]

    def __enter__(self) -> Results:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write what is left, also when the job was interrupted: it is finished work."""
        if self._waiting:
            self._write(self._waiting)
            self._waiting = []

    def _parts(self) -> list[Path]:
        return sorted(self.folder.glob("part-*.parquet"))

    def _read(self, column: str) -> list[Any]:
        values: list[Any] = []
        for part in self._parts():
            try:
                values += pq.read_table(part, columns=[column]).column(column).to_pylist()
            except (pa.ArrowException, OSError) as error:
                raise CoverLockError(f"{part} is not a file of results ({error})") from None
        return values

    def _write(self, rows: list[Row]) -> None:
        parts = self._parts()
        number = int(parts[-1].stem.removeprefix("part-")) + 1 if parts else 0
        file = io.BytesIO()
        pq.write_table(result_table(rows), file)
        path = self.folder / f"part-{number:06}.parquet"
        try:
            write_atomically(path, file.getvalue())
        except OSError as error:
            raise CoverLockError(f"{path} cannot be written ({error.strerror or error})") from None

"""The results of a job on a cluster: a folder with one Parquet file for each shard that is done."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from coverlock_plugins.ray_cluster.inputs import asked_again, content_of, local_path, resolved
from coverlock_sdk import CoverLockError
from coverlock_sdk.bundles.bundle import MANIFEST, Bundle
from coverlock_sdk.documents import DocumentError, parsed
from coverlock_sdk.files import write_atomically
from coverlock_sdk.frames import Frame
from coverlock_sdk.locking.lock import Lock
from coverlock_sdk.scaling.job import Row, VerificationJob

JOB = "_job.json"
"""The file beside the results that holds the terms of their job."""

WRITERS = 16
"""Files that are written or looked at together: an object store takes its time for each."""

_CREDENTIALS = re.compile(r"//[^/@]*@")
"""What a URI may have before its host, or in its options, and no message repeats."""

_PART = re.compile(r"part-(\d{6,})\.parquet")

STATUSES = ("accepted", "rejected", "error")
RESULTS = pa.schema(
    [
        *((name, pa.string()) for name in ("file", "id", "status")),
        ("p_value", pa.float64()),
        ("matches", pa.int32()),
        ("bits", pa.int32()),
        ("fpr", pa.float64()),
        ("rule", pa.string()),
        *((name, pa.float64()) for name in ("agreement", "floor", "likeness")),
        ("frame", pa.struct([(name, pa.float64()) for name in Frame._fields])),
        *((name, pa.string()) for name in ("key_id", "reason", "sha256", "error")),
    ]
)


def terms(job: VerificationJob, bundle: Bundle, lock: Lock) -> dict[str, Any]:
    """Everything except the picture that a verdict depends on; it tells jobs apart.

    It holds fingerprints of keys and digests of bundle and message, and no secret.
    """
    return {
        "bundle": hashlib.sha256((bundle.path / MANIFEST).read_bytes()).hexdigest(),
        "message": job.message and hashlib.sha256(job.message.encode()).hexdigest(),
        "keys": [key.fingerprint for key in lock.keys if key is not None],
        "fpr": lock.fpr,
        "registry": job.registry,
        "precision": job.precision,
    }


class Results:
    """The results of one job, which may have been begun before.

    ``folder`` is a path or a URI. ``terms`` tell jobs apart: a folder that holds the results of
    another one is refused. Several threads may write.
    """

    def __init__(self, folder: str | Path, terms: Mapping[str, Any]) -> None:
        self.terms = dict(terms)
        self._store = Store(str(folder))
        names = self._store.names()
        self._done = {int(part[1]) for name in names if (part := _PART.fullmatch(name))}
        if self._done:
            self._refuse_other_jobs(JOB in names)
        else:
            self._store.write(JOB, json.dumps(self.terms, indent=2).encode() + b"\n")

    def is_done(self, shard: int) -> bool:
        """Whether the results on a shard are there."""
        return shard in self._done

    def write(self, shard: int, rows: list[Row]) -> None:
        """Keep the results on a shard as one Parquet file."""
        counts = Counter(row["status"] for row in rows)
        about = {status: str(counts[status]) for status in STATUSES}
        file = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows, RESULTS.with_metadata(about)), file)
        self._store.write(_part(shard), file.getvalue())
        self._done.add(shard)

    def counts(self) -> dict[str, int]:
        """How many pictures were accepted, rejected, or could not be verified."""
        total: Counter[str] = Counter()
        with ThreadPoolExecutor(WRITERS) as pool:
            for counted in pool.map(self._counted, sorted(self._done)):
                total.update(counted)
        return {status: total[status] for status in STATUSES}

    def _counted(self, shard: int) -> dict[str, int]:
        name = _part(shard)
        try:
            about = self._store.schema(name).metadata or {}
            return {status: int(about[status.encode()]) for status in STATUSES}
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            where = self._store.place(name)
            raise CoverLockError(f"{where} is not a file of results ({error})") from None

    def _refuse_other_jobs(self, is_named: bool) -> None:
        remedy = "choose another folder with --out"
        folder = self._store.folder
        if not is_named:
            raise CoverLockError(
                f"{folder} holds results of an unknown job (it has no {JOB}): {remedy}"
            )
        try:
            terms = parsed(self._store.read(JOB), dict[str, Any])
        except DocumentError as error:
            where = self._store.place(JOB)
            raise CoverLockError(f"{where} does not describe a job ({error}): {remedy}") from None
        names = sorted({*terms, *self.terms})
        differing = [name for name in names if terms.get(name) != self.terms.get(name)]
        if differing:
            raise CoverLockError(
                f"{folder} holds the results of another job "
                f"(differing in {', '.join(differing)}): {remedy}"
            )


def _part(shard: int) -> str:
    return f"part-{shard:06}.parquet"


class Store:
    """The files of one folder, which is on a disk or in an object store."""

    def __init__(self, folder: str) -> None:
        path = local_path(folder)
        self._is_local = path is not None
        self.folder = path or _CREDENTIALS.sub("//", folder.partition("?")[0])
        with self._explained("made"):
            self._system, self._path = pyarrow.fs.LocalFileSystem(), self.folder
            if path is None:
                self._system, self._path = resolved(folder)
            self._system.create_dir(self._path, recursive=True)

    def place(self, name: str) -> str:
        """Where a file is, for people."""
        return f"{self.folder.rstrip('/')}/{name}"

    def names(self) -> set[str]:
        """The files that are there."""
        with self._explained("listed"):
            here = pyarrow.fs.FileSelector(self._path)
            listing = asked_again(lambda: self._system.get_file_info(here))
            return {info.base_name for info in listing if info.is_file}

    def read(self, name: str) -> bytes:
        """The content of a file."""
        with self._explained("read", name):
            return content_of(self._system, self._file(name))

    def schema(self, name: str) -> pa.Schema:
        """The schema of a Parquet file, which has its metadata."""
        return asked_again(lambda: pq.read_schema(self._file(name), filesystem=self._system))

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole or not at all, as object stores do by themselves."""
        with self._explained("written", name):
            if self._is_local:
                write_atomically(Path(self._file(name)), content)
            else:
                asked_again(lambda: self._put(name, content))

    def _put(self, name: str, content: bytes) -> None:
        with self._system.open_output_stream(self._file(name)) as stream:
            stream.write(content)

    def _file(self, name: str) -> str:
        return f"{self._path.rstrip('/')}/{name}"

    @contextlib.contextmanager
    def _explained(self, done: str, name: str = "") -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            where = self.place(name) if name else self.folder
            raise CoverLockError(f"{where} cannot be {done} ({error})") from None

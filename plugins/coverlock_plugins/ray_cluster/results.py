"""The results of a job on a cluster: a folder with one Parquet file for each shard that is done."""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from coverlock_sdk.bundles.bundle import MANIFEST, Bundle
from coverlock_sdk.documents import Document, DocumentError, read_file
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.files import write_atomically
from coverlock_sdk.frames import Frame
from coverlock_sdk.locking.lock import Lock
from coverlock_sdk.scaling.job import Row, VerificationJob

JOB = "_job.json"
"""The file beside the results that holds the terms of their job."""

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

    ``terms`` tell jobs apart: a folder that holds the results of another one is refused.
    """

    def __init__(self, folder: Path, terms: Mapping[str, Any]) -> None:
        self.folder, self.terms = folder, dict(terms)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CoverLockError(f"{folder} cannot be made ({error.strerror or error})") from None
        self._refuse_other_jobs()

    def is_done(self, shard: int) -> bool:
        """Whether the results on a shard are there."""
        return self._file(shard).exists()

    def write(self, shard: int, rows: Iterable[Row]) -> None:
        """Keep the results on a shard; from the first on, the folder belongs to this job."""
        if not (self.folder / JOB).exists():
            self._write(self.folder / JOB, json.dumps(self.terms, indent=2).encode() + b"\n")
        rows = list(rows)
        counts = Counter(row["status"] for row in rows)
        about = {status: str(counts[status]) for status in STATUSES}
        file = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows, RESULTS.with_metadata(about)), file)
        self._write(self._file(shard), file.getvalue())

    def counts(self) -> dict[str, int]:
        """How many pictures were accepted, rejected, or could not be verified."""
        total: Counter[str] = Counter()
        for file in self.folder.glob("part-*.parquet"):
            try:
                about = pq.read_schema(file).metadata or {}
                total.update({status: int(about[status.encode()]) for status in STATUSES})
            except (pa.ArrowException, OSError, KeyError, ValueError) as error:
                raise CoverLockError(f"{file} is not a file of results ({error})") from None
        return {status: total[status] for status in STATUSES}

    def _file(self, shard: int) -> Path:
        return self.folder / f"part-{shard:06}.parquet"

    def _refuse_other_jobs(self) -> None:
        remedy = "choose another folder with --out"
        path = self.folder / JOB
        if not path.exists():
            if any(self.folder.glob("part-*.parquet")):
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

    def _write(self, path: Path, content: bytes) -> None:
        try:
            write_atomically(path, content)
        except OSError as error:
            raise CoverLockError(f"{path} cannot be written ({error.strerror or error})") from None

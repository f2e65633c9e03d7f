"""Verification on a Ray cluster, with Ray Data.

Pictures are read and resized by tasks, and judged by a pool of actors with one verifier each (and
one GPU each where there are any). Results are Parquet files that the driver alone writes, each
whole or not at all. So a job that is stopped goes on where it was, and what a dying worker leaves
undone or does twice is in the results once.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import ray
import ray.data

from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.images.isolation import DecodingPool
from coverlock_sdk.scaling.inputs import Item, Part, find_parts
from coverlock_sdk.scaling.job import Prepared, VerificationJob
from coverlock_sdk.scaling.results import Key, Results, result_table
from coverlock_sdk.verifier.audit_log import AuditLog
from coverlock_sdk.verifier.triton_runtime import ADDRESS_VARIABLE

READER_CPUS = 0.5
"""Not as many as an actor has: Ray would make one step of the two, and no result would be seen
before a whole batch of parts is done."""

Columns = dict[str, Any]
"""A batch as Ray Data hands it over: arrays by column name."""


def verify_on_ray(
    job: VerificationJob,
    sources: Sequence[str],
    out: Path,
    actors: int | None = None,
    roots: Sequence[str] = (),
    audit: Path | None = None,
) -> dict[str, int]:
    """Verify what ``sources`` name and write the results to the folder ``out``.

    A source is a picture or a folder of them, on a shared disk or in an object store
    (``s3://bucket/folder``), or Parquet (``.parquet``, or a folder of such files) with a column
    ``path`` or ``bytes``, and optionally ``file``, a name for the picture, and ``id``, the
    identifier to look for in it. A ``path`` is below the folder of its source, or below one of
    ``roots``. Pictures that ``out`` holds already are skipped, except errors. The driver appends
    every verdict to the audit log ``audit``.
    Returns how many pictures of each status ``out`` holds in the end.
    """
    bundle, lock = job.checked()
    results = Results(out, job.terms(bundle, lock))
    parts = find_parts(sources, job.message is not None, roots)
    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False)
    log = AuditLog(audit, bundle.manifest.version) if audit else None
    job = replace(job, threads=job.threads or 1, digests=log is not None)
    judged = _judged(job, parts, bundle.manifest.size, results.done(), actors)
    with results:
        for batch in judged.iter_batches(batch_size=None, batch_format="pyarrow"):
            rows = batch.to_pylist()
            if log:
                for row in rows:
                    log.row_reached(
                        row, job.message, bundle.manifest.watermark, bundle.manifest.hash
                    )
            results.add(rows)
    return results.counts()


def _judged(
    job: VerificationJob,
    parts: Sequence[Part],
    size: tuple[int, int] | None,
    done: set[Key],
    actors: int | None,
) -> Any:
    """The dataset of results on the pictures of ``parts`` that are not done yet."""
    cluster: Any = ray  # whose functions are not typed
    resources: dict[str, float] = cluster.cluster_resources()
    gpus = int(resources.get("GPU", 0))
    actors = actors or gpus or max(1, int(resources.get("CPU", 1)) - 1)
    needs = {"num_gpus": 1 if gpus else 0, **_environment()}
    if problem := cluster.get(cluster.remote(_problem).options(**needs).remote(job)):
        raise CoverLockError(f"a worker of the cluster cannot verify: {problem}")
    rows = [{"part": pickle.dumps(part)} for part in parts]
    dataset: Any = ray.data.from_items(rows, override_num_blocks=len(rows))
    return dataset.map_batches(
        _read,
        fn_kwargs={"size": size, "job": job, "done": done},
        batch_size=1,
        num_cpus=READER_CPUS,
    ).map_batches(
        _Judge,
        fn_constructor_args=(job,),
        batch_size=job.max_batch,
        compute=ray.data.ActorPoolStrategy(size=actors),
        **needs,
    )


def _environment() -> dict[str, Any]:
    """What workers need to know of this process's environment: where Triton is, if anywhere."""
    address = os.environ.get(ADDRESS_VARIABLE)
    return {"runtime_env": {"env_vars": {ADDRESS_VARIABLE: address}}} if address else {}


def _problem(job: VerificationJob) -> str | None:
    """Why a worker cannot open the job, if so: its runtime is there, and not where we are."""
    try:
        with job.open():
            pass
    except CoverLockError as error:
        return str(error)
    return None


def _read(
    batch: Columns, size: tuple[int, int] | None, job: VerificationJob, done: set[Key]
) -> Iterator[Columns]:
    """The pictures of parts that are not done yet, at the size of the graph."""
    for content in batch["part"]:
        part: Part = pickle.loads(content)
        left = (item for item in part.items() if (item.file, item.id) not in done)
        while items := list(islice(left, job.max_batch)):
            yield _pixels(items, size, job)


@lru_cache(maxsize=1)
def _decoders(job: VerificationJob) -> DecodingPool:
    """Kept as long as this process, because Ray runs one task after the other in it."""
    return job.decoders()


def _pixels(items: Sequence[Item], size: tuple[int, int] | None, job: VerificationJob) -> Columns:
    """Pictures as arrays; one that cannot be read keeps the reason instead.

    Arrays of different sizes are pickled, because a column holds values of one shape.
    """
    decoders = _decoders(job) if job.isolate else None
    prepared = [job.prepare(item.file, size, decoders, item.load) for item in items]
    blank = np.zeros((*(size or (0, 0)), 3), dtype=np.uint8)
    pixels = [blank if p.pixels is None else p.pixels for p in prepared]
    return {
        "file": np.array([item.file for item in items], dtype=object),
        "id": np.array([item.id or "" for item in items], dtype=object),
        "pixels": np.stack(pixels) if size else np.array(list(map(pickle.dumps, pixels)), object),
        "error": np.array([p.error or "" for p in prepared], dtype=object),
        "sha256": np.array([p.digest or "" for p in prepared], dtype=object),
    }


class _Judge:
    """An actor: one verifier, opened once."""

    def __init__(self, job: VerificationJob) -> None:
        self.job = job
        self.verifier = job.verifier()

    def __call__(self, batch: Columns) -> Any:
        rows = zip(batch["file"], batch["pixels"], batch["error"], strict=True)
        pictures = [
            Prepared(str(f), None if error else _array(p), error or None) for f, p, error in rows
        ]
        common = self.job.message
        messages = batch["id"] if common is None else [common] * len(pictures)
        judged = self.job.judge(self.verifier, pictures, messages)
        keys = zip(judged, batch["id"], batch["sha256"], strict=True)
        return result_table(
            {**row, "id": identifier or None, "sha256": digest or None}
            for row, identifier, digest in keys
        )


def _array(value: Any) -> Any:
    return pickle.loads(value) if isinstance(value, bytes) else value

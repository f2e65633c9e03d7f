"""Verification on a Ray cluster: actors that do what processes of one machine do.

It goes by shards. An actor judges a shard, the driver writes its results as one Parquet
file, whole or not at all, and a shard whose file exists is done. So a job that is stopped goes on
where it was, and a shard whose actor dies is given to another one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import ray
from ray.util import ActorPool

from coverlock_plugins.ray_cluster.inputs import Shard, find_shards
from coverlock_plugins.ray_cluster.results import Results, terms
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.scaling.job import Row, VerificationJob
from coverlock_sdk.verifier.audit_log import AuditLog
from coverlock_sdk.verifier.triton_runtime import ADDRESS_VARIABLE, CERTIFICATES_VARIABLE

TRIES = 3
"""How often a dead actor is started again, and its task with it."""

_ray: Any = ray  # whose functions are not typed


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
    ``roots``. Shards that ``out`` holds already are skipped. The driver appends every verdict to
    the audit log ``audit``. Returns how many pictures of each status ``out`` holds in the end.
    """
    bundle, lock = job.checked()
    shards = find_shards(sources, job.message is not None, roots)
    names = hashlib.sha256("\n\n".join(shard.name for shard in shards).encode()).hexdigest()
    results = Results(out, {**terms(job, bundle, lock), "pictures": names})
    left = [(n, shard) for n, shard in enumerate(shards) if not results.is_done(n)]
    log = AuditLog(audit, bundle.manifest.version) if audit else None
    about = job.message, bundle.manifest.watermark, bundle.manifest.hash
    for number, rows in _judged(replace(job.alone(), digests=log is not None), left, actors):
        if log is not None:
            for row in rows:
                log.row_reached(row, *about)
        results.write(number, rows)
    return results.counts()


def _judged(
    job: VerificationJob, shards: Sequence[tuple[int, Shard]], actors: int | None
) -> Iterator[tuple[int, list[Row]]]:
    """The results on shards, each with its number, as they are finished."""
    if not shards:
        return
    if not _ray.is_initialized():
        _ray.init(log_to_driver=False, include_dashboard=False)
    resources = _ray.cluster_resources()
    actors = min(actors or max(1, int(resources.get("CPU", 1)) - 1), len(shards))
    # Several actors share a GPU, because each decodes its own pictures.
    share = int(10_000 * min(1, resources.get("GPU", 0) / actors)) / 10_000
    named = (ADDRESS_VARIABLE, CERTIFICATES_VARIABLE)
    variables = {name: os.environ[name] for name in named if os.environ.get(name)}
    needs = {"num_gpus": share, "runtime_env": {"env_vars": variables}}
    if problem := _ray.get(_ray.remote(_problem).options(**needs).remote(job)):
        raise CoverLockError(f"a worker of the cluster cannot verify: {problem}")
    tries = {"max_restarts": TRIES, "max_task_retries": TRIES}
    kind = _ray.remote(_Worker).options(num_cpus=1, **tries, **needs)
    pool = ActorPool([kind.remote(job) for _ in range(actors)])
    yield from pool.map_unordered(lambda actor, shard: actor.judge.remote(*shard), shards)


class _Worker:
    """An actor: what the job works with, opened once."""

    def __init__(self, job: VerificationJob) -> None:
        self._job = job
        self._worker = job.open().__enter__()

    def judge(self, number: int, shard: Shard) -> tuple[int, list[Row]]:
        """One row for each picture of a shard, and the shard's number."""
        rows: list[Row] = []
        items = shard.items()
        while part := list(islice(items, self._job.max_batch)):
            named = [item._replace(id=self._job.message or item.id) for item in part]
            judged = self._job.check_items(self._worker, named)
            rows += [{**row, "id": item.id} for row, item in zip(judged, part, strict=True)]
        return number, rows


def _problem(job: VerificationJob) -> str | None:
    """Why a worker cannot open the job, if so: its runtime is there, and not where we are."""
    try:
        with job.open():
            pass
    except CoverLockError as error:
        return str(error)
    return None

"""Verification on a Ray cluster: actors that do what processes of one machine do.

It goes by shards. An actor judges a shard, the driver writes its results as one Parquet
file, whole or not at all, and a shard whose file exists is done. So a job that is stopped goes on
where it was, and a shard whose actor dies is given out again. The driver keeps the shards that are
being worked on and the numbers of those that are done, and nothing of single pictures.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import ray

from coverlock_plugins.ray_cluster.inputs import Shard, find_shards
from coverlock_plugins.ray_cluster.results import WRITERS, Results, encoded, terms
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.scaling.job import Row, VerificationJob
from coverlock_sdk.verifier.audit_log import AuditLog

PAUSES = (1.0, 10.0, 60.0)
"""Seconds before a shard whose actor died is tried again; a node may be going away."""

_ray: Any = ray  # whose functions are not typed


def verify_on_ray(
    job: VerificationJob,
    sources: Sequence[str],
    out: str | Path,
    actors: int | None = None,
    roots: Sequence[str] = (),
    audit: Path | None = None,
) -> dict[str, int]:
    """Verify what ``sources`` name and write the results to ``out``, a folder or URI.

    A source is a picture or a folder of them, on a shared disk or in an object store
    (``s3://bucket/folder``), or Parquet (``.parquet``, or a folder of such files) with a column
    ``path`` or ``bytes``, and optionally ``file``, a name for the picture, and ``id``, the
    identifier to look for in it. A ``path`` is below the folder of its source, or below one of
    ``roots``. Shards that ``out`` holds already are skipped. The driver appends every verdict to
    the audit log ``audit``. Returns how many pictures of each status ``out`` holds in the end.
    """
    bundle, lock = job.checked()
    shards = find_shards(sources, job.message is not None, roots)
    names, count = hashlib.sha256(), 0
    for shard in shards:
        count += 1
        names.update(f"{shard.name}\n\n".encode())
    results = Results(out, {**terms(job, bundle, lock), "pictures": names.hexdigest()})
    left = (Task(n, shard) for n, shard in enumerate(shards) if not results.is_done(n))
    log = AuditLog(audit, bundle.manifest.version) if audit else None
    about = job.message, bundle.manifest.watermark, bundle.manifest.hash
    job = replace(job.alone(), digests=log is not None)
    with ThreadPoolExecutor(WRITERS) as pool:
        writing: deque[Future[None]] = deque()
        for done in _judged(job, left, min(actors or count, count)):
            for row in done.rows:
                assert log is not None
                log.row_reached(row, *about)
            writing.append(pool.submit(results.write, done.number, done.content))
            if len(writing) > 2 * WRITERS:
                writing.popleft().result()
        for each in writing:
            each.result()
    return results.counts()


class Task(NamedTuple):
    """A shard by its number, how often it failed, and from when on it may be tried."""

    number: int
    shard: Shard
    failures: int = 0
    due: float = 0.0


class Done(NamedTuple):
    """The results on a shard, as a file, and as rows where there is an audit log."""

    number: int
    content: bytes
    rows: list[Row]


def _judged(job: VerificationJob, tasks: Iterator[Task], most: int) -> Iterator[Done]:
    """The results on shards as they are finished, by at most so many actors."""
    first = next(tasks, None)
    if first is None:
        return
    if not _ray.is_initialized():
        _ray.init(log_to_driver=False, include_dashboard=False)
    resources = _ray.cluster_resources()
    actors = min(most, max(1, int(resources.get("CPU", 1)) - 1))
    # Several actors share a GPU, because each decodes its own pictures.
    share = int(10_000 * min(1, resources.get("GPU", 0) / actors)) / 10_000
    if problem := _ray.get(_ray.remote(_problem).options(num_gpus=share).remote(job)):
        raise CoverLockError(f"a worker of the cluster cannot verify: {problem}")
    kind = _ray.remote(_Worker).options(num_cpus=1, num_gpus=share)
    yield from _shared_out(chain([first], tasks), partial(kind.remote, job), actors)


def _shared_out(tasks: Iterator[Task], hire: Callable[[], Any], actors: int) -> Iterator[Done]:
    """Give each actor a shard, and the next one when it is done.

    An actor that fails is replaced, and its shard is tried again later.
    """
    idle = [hire() for _ in range(actors)]
    running: dict[Any, tuple[Any, Task]] = {}
    again: list[Task] = []
    while True:
        while idle and (task := _next(tasks, again)) is not None:
            actor = idle.pop()
            running[actor.judge.remote(task.number, task.shard)] = actor, task
        if not running and not again:
            return
        if not running:
            time.sleep(0.1)
            continue
        ready, _ = _ray.wait(list(running), timeout=0.1 if again else None)
        for each in ready:
            actor, task = running.pop(each)
            try:
                done = _ray.get(each)
            except ray.exceptions.RayError as error:
                again.append(_failed(task, error))
                _ray.kill(actor)
                idle.append(hire())
                continue
            idle.append(actor)
            yield done


def _next(tasks: Iterator[Task], again: list[Task]) -> Task | None:
    """A shard that is due to be tried again, or else a new one."""
    now = time.monotonic()
    for place, task in enumerate(again):
        if task.due <= now:
            return again.pop(place)
    return next(tasks, None)


def _failed(task: Task, error: Exception) -> Task:
    """The task to be tried again after a pause; an error when that was done often enough."""
    if task.failures == len(PAUSES):
        name = task.shard.name.partition("\n")[0]
        raise CoverLockError(
            f"shard {task.number}, which begins with {name}, failed {task.failures + 1} times "
            f"({type(error).__name__}): find out what is wrong there and run the command again"
        ) from error
    due = time.monotonic() + PAUSES[task.failures]
    return task._replace(failures=task.failures + 1, due=due)


class _Worker:
    """An actor: what the job works with, opened once."""

    def __init__(self, job: VerificationJob) -> None:
        self._job = job
        self._worker = job.open().__enter__()

    def judge(self, number: int, shard: Shard) -> Done:
        """One row for each picture of a shard."""
        rows: list[Row] = []
        items = shard.items()
        while part := list(islice(items, self._job.max_batch)):
            named = [item._replace(id=self._job.message or item.id) for item in part]
            judged = self._job.check_items(self._worker, named)
            rows += [{**row, "id": item.id} for row, item in zip(judged, part, strict=True)]
        return Done(number, encoded(rows), rows if self._job.digests else [])


def _problem(job: VerificationJob) -> str | None:
    """Why a worker cannot open the job, if so: its runtime is there, and not where we are."""
    try:
        with job.open():
            pass
    except CoverLockError as error:
        return str(error)
    return None

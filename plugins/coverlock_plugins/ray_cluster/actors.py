"""Verification on a Ray cluster: actors that do what processes of one machine do.

It goes by shards. An actor judges a shard, the driver writes its results as one Parquet
file, whole or not at all, and a shard whose file exists is done. So a job that is stopped goes on
where it was, and a shard whose actor dies is tried again after the others. The driver keeps nothing
of single pictures but the names of those that lie in folders.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from typing import Any

import ray

from coverlock_plugins.ray_cluster.inputs import Shard, find_shards
from coverlock_plugins.ray_cluster.results import WRITERS, Results, terms
from coverlock_sdk import CoverLockError
from coverlock_sdk.scaling.job import Row, VerificationJob

PAUSES = (0, 1, 10, 60)
"""Seconds before each try of a shard: where an actor died, a node may be going away."""

_ray: Any = ray  # whose functions are not typed


def verify_on_ray(
    job: VerificationJob,
    sources: Sequence[str],
    out: str | Path,
    actors: int | None = None,
    roots: Sequence[str] = (),
) -> dict[str, int]:
    """Verify what ``sources`` name and write the results to ``out``, a folder or URI.

    Shards that ``out`` holds already are skipped. Returns how many pictures of each status it holds
    in the end. Sources and ``roots`` are those of ``find_shards``.
    """
    bundle, lock = job.checked()
    shards = find_shards(sources, job.message is not None, roots)
    names = hashlib.sha256()
    for shard in shards:
        names.update(f"{shard.name}\n\n".encode())
    results = Results(out, {**terms(job, bundle, lock), "pictures": names.hexdigest()})
    left = [(n, shard) for n, shard in enumerate(shards) if not results.is_done(n)]
    job = job.alone()
    with ThreadPoolExecutor(WRITERS) as pool:
        writing: deque[Future[None]] = deque()
        for number, rows in _judged(job, left, actors):
            writing.append(pool.submit(results.write, number, rows))
            if len(writing) > 2 * WRITERS:
                writing.popleft().result()
        for each in writing:
            each.result()
    return results.counts()


def _judged(
    job: VerificationJob, tasks: Sequence[tuple[int, Shard]], most: int | None
) -> Iterator[tuple[int, list[Row]]]:
    """The rows on numbered shards as they are finished, by at most so many actors."""
    if not tasks:
        return
    if not _ray.is_initialized():
        _ray.init(log_to_driver=False, include_dashboard=False)
    resources = _ray.cluster_resources()
    actors = min(most or len(tasks), len(tasks), max(1, int(resources.get("CPU", 1)) - 1))
    # Several actors share a GPU, because each decodes its own pictures.
    share = int(10_000 * min(1, resources.get("GPU", 0) / actors)) / 10_000
    needs = {"num_gpus": share}
    if problem := _ray.get(_ray.remote(_problem).options(**needs).remote(job)):
        raise CoverLockError(f"a worker of the cluster cannot verify: {problem}")
    kind = _ray.remote(_Worker).options(num_cpus=1, **needs)
    idle = [kind.remote(job) for _ in range(actors)]
    running: dict[Any, tuple[Any, int, Shard]] = {}
    failures: Counter[int] = Counter()
    waiting = iter(tasks)
    while True:
        for number, shard in islice(waiting, len(idle)):
            actor = idle.pop()
            judged = actor.judge.remote(shard, PAUSES[failures[number]])
            running[judged] = actor, number, shard
        if not running:
            return
        [ready], _ = _ray.wait(list(running))
        actor, number, shard = running.pop(ready)
        try:
            rows = _ray.get(ready)
        except ray.exceptions.RayError as error:
            failures[number] += 1
            if failures[number] == len(PAUSES):
                name = shard.name.partition("\n")[0]
                raise CoverLockError(
                    f"shard {number}, which begins with {name}, failed {len(PAUSES)} times "
                    f"({type(error).__name__}): find the cause there and run the command again"
                ) from error
            _ray.kill(actor)
            idle.append(kind.remote(job))
            waiting = chain(waiting, [(number, shard)])
            continue
        idle.append(actor)
        yield number, rows


class _Worker:
    """An actor: what the job works with, opened once."""

    def __init__(self, job: VerificationJob) -> None:
        self._job = job
        self._worker = job.open().__enter__()

    def judge(self, shard: Shard, pause: float) -> list[Row]:
        """One row for each picture of a shard, after a pause of so many seconds."""
        time.sleep(pause)
        rows: list[Row] = []
        items = shard.items()
        while part := list(islice(items, self._job.max_batch)):
            named = [item._replace(id=self._job.message or item.id) for item in part]
            judged = self._job.check_items(self._worker, named)
            rows += [{**row, "id": item.id} for row, item in zip(judged, part, strict=True)]
        return rows


def _problem(job: VerificationJob) -> str | None:
    """Why a worker cannot open the job, if so: its runtime is there, and not where we are."""
    try:
        with job.open():
            pass
    except CoverLockError as error:
        return str(error)
    return None

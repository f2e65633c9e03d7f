"""A job of many pictures on a Ray cluster: actors that do what processes of one machine do.

Every node reads and writes the same folders. A part whose actor dies is given to another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import ray
from ray.util import ActorPool

from coverlock_sdk.scaling.job import Row
from coverlock_sdk.scaling.pool import Job, parts_of

TRIES = 3


class _Worker:
    """An actor: what the job works with, opened once."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._worker = job.open().__enter__()

    def check(self, items: Sequence[Any]) -> list[Row]:
        """One row for each item."""
        return self._job.check(self._worker, items)


def in_actors(job: Job, items: Sequence[Any], workers: int) -> Iterator[Row]:
    """Work on ``items`` with ``workers`` actors; rows come in the order of the items."""
    cluster: Any = ray  # whose functions are not typed
    if not cluster.is_initialized():
        cluster.init(log_to_driver=False, include_dashboard=False)
    job = job.alone()
    kind = cluster.remote(_Worker).options(num_cpus=1, max_restarts=TRIES, max_task_retries=TRIES)
    pool = ActorPool([kind.remote(job) for _ in range(workers)])
    parts = [part.items for part in parts_of(job, items)]
    for rows in pool.map(lambda actor, part: actor.check.remote(part), parts):
        yield from rows

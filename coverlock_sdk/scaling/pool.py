"""A pool of processes on one machine, each with a verifier or an embedder of its own.

A process that dies (a decoder crashed, the system ran out of memory) costs nothing but time: what
it was working on is done again, and a picture that kills whoever touches it becomes an error.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from multiprocessing.connection import wait as wait_for_any
from typing import Any, Protocol

from coverlock_sdk.scaling.job import Row

_THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Job(Protocol):
    """Work on many pictures for other processes; ``str`` of an item is the name of its file."""

    @property
    def max_batch(self) -> int:
        """Pictures that a process is given at once."""

    def alone(self) -> Job:
        """The job for one process of several, which runs a single thread."""

    def open(self) -> AbstractContextManager[Any]:
        """What a process works with."""

    def check(self, worker: Any, items: Sequence[Any]) -> list[Row]:
        """One row for each item; one that fails does not stop the others."""


def in_processes(job: Job, items: Sequence[Any], workers: int) -> Iterator[Row]:
    """Work on ``items`` with ``workers`` processes; rows come in the order of the items.

    A single worker is this process itself. Several share the machine: each runs one thread.
    """
    size = job.max_batch
    parts = deque(items[start : start + size] for start in range(0, len(items), size))
    if workers == 1:
        with job.open() as worker:
            for part in parts:
                yield from job.check(worker, part)
        return
    job = job.alone()
    with job.open():
        pass  # what is wrong with the job itself is said once, and here
    while parts:
        with _pool(job, workers) as pool, contextlib.suppress(BrokenProcessPool):
            for future in [pool.submit(_check, part) for part in parts]:
                rows = future.result()
                parts.popleft()
                yield from rows
        if parts:  # the pool is broken, and these may be to blame
            yield from _again(job, parts.popleft())


def _again(job: Job, items: Sequence[Any]) -> list[Row]:
    """Work on items whose process died, in halves until those to blame stand alone."""
    try:
        with _pool(job, 1) as pool:
            return pool.submit(_check, items).result()
    except BrokenProcessPool:
        if len(items) == 1:
            file = str(items[0])
            error = f"a process died working on {file}"
            return [{"file": file, "status": "error", "error": error, "warnings": []}]
        middle = len(items) // 2
        return _again(job, items[:middle]) + _again(job, items[middle:])


@contextlib.contextmanager
def _pool(job: Job, workers: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes: a fork would inherit the threads of this one in an unknown state."""
    spawning = multiprocessing.get_context("spawn")
    before = {name: os.environ[name] for name in _THREAD_LIMITS if name in os.environ}
    os.environ.update(dict.fromkeys(_THREAD_LIMITS, "1"))
    try:
        with ProcessPoolExecutor(workers, spawning, _open, (job,)) as pool:
            try:
                yield pool
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    finally:
        for name in _THREAD_LIMITS:
            del os.environ[name]
        os.environ.update(before)


_at_work: tuple[Job, Any]
"""Of a worker process: set once, when it starts."""


def _open(job: Job) -> None:
    global _at_work
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; this process's parent acts
    _at_work = job, job.open().__enter__()


def _end_with_parent() -> None:
    """End this process when its parent does, even if that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for_any([parent.sentinel])
    os._exit(1)


def _check(items: Sequence[Any]) -> list[Row]:
    job, worker = _at_work
    return job.check(worker, items)

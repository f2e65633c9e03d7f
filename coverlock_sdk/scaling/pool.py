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
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing.connection import wait as wait_for_any
from typing import Any, Protocol

from coverlock_sdk.scaling.job import Row

_THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Job(Protocol):
    """Work on many pictures, as plain values that can be sent to other processes."""

    @property
    def threads(self) -> int | None:
        """Threads of a process; None leaves the choice to it."""

    @property
    def max_batch(self) -> int:
        """Pictures that a process is given at once."""

    def alone(self) -> Job:
        """The job for one process of several, which runs a single thread."""

    def open(self) -> AbstractContextManager[Any]:
        """What a process works with."""

    def check(self, worker: Any, items: Sequence[Any]) -> list[Row]:
        """One row for each item; one that fails does not stop the others."""

    def died(self, item: Any) -> Row:
        """The row of an item that no process survives."""


@dataclass(frozen=True)
class Part:
    """Items that a process is given together, and the position of the first."""

    start: int
    items: list[Any]


def parts_of(job: Job, items: Sequence[Any]) -> list[Part]:
    """``items`` in parts as large as the job takes them."""
    return [
        Part(start, list(items[start : start + job.max_batch]))
        for start in range(0, len(items), job.max_batch)
    ]


def in_processes(job: Job, items: Sequence[Any], workers: int) -> Iterator[Row]:
    """Work on ``items`` with ``workers`` processes; rows come in the order of the items.

    A single worker is this process itself. Several share the machine: each runs one thread.
    """
    parts = parts_of(job, items)
    if workers == 1:
        with job.open() as worker:
            for part in parts:
                yield from job.check(worker, part.items)
        return
    job = job.alone()
    with job.open():
        pass  # what is wrong with the job itself is said once, and here
    finished: dict[int, list[Row]] = {}
    position = 0
    for part, rows in _shared_out(job, parts, workers):
        finished[part.start] = rows
        while position in finished:
            ready = finished.pop(position)
            position += len(ready)
            yield from ready


def _shared_out(job: Job, parts: Sequence[Part], workers: int) -> Iterator[tuple[Part, list[Row]]]:
    """Parts as they are finished. A broken pool is replaced, and its parts are done again."""
    waiting = deque(parts)
    while waiting:
        interrupted: list[Part] = []
        with _pool(job, workers) as pool:
            running: dict[Future[list[Row]], Part] = {}
            while running or (waiting and not interrupted):
                while waiting and not interrupted and len(running) < 2 * workers:
                    part = waiting.popleft()
                    try:
                        running[pool.submit(_check, part.items)] = part
                    except BrokenProcessPool:
                        interrupted.append(part)
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    part = running.pop(future)
                    try:
                        yield part, future.result()
                    except BrokenProcessPool:
                        interrupted.append(part)
        for part in interrupted:
            yield part, _again(job, part.items)


def _again(job: Job, items: list[Any]) -> list[Row]:
    """Work on items whose process died, in halves until those to blame stand alone."""
    try:
        with _pool(job, 1) as pool:
            return pool.submit(_check, items).result()
    except BrokenProcessPool:
        if len(items) == 1:
            return [job.died(items[0])]
        middle = len(items) // 2
        return _again(job, items[:middle]) + _again(job, items[middle:])


@contextlib.contextmanager
def _pool(job: Job, workers: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes: a fork would inherit the threads of this one in an unknown state."""
    spawning = multiprocessing.get_context("spawn")
    limits = {name: str(job.threads or 1) for name in _THREAD_LIMITS}
    before = {name: os.environ.get(name) for name in limits}
    os.environ.update(limits)
    try:
        with ProcessPoolExecutor(workers, spawning, _open, (job,)) as pool:
            try:
                yield pool
            except KeyboardInterrupt:
                pool.shutdown(cancel_futures=True)
                raise
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


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


def _check(items: list[Any]) -> list[Row]:
    job, worker = _at_work
    return job.check(worker, items)

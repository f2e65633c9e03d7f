"""A pool of processes on one machine, each with a verifier of its own.

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
from dataclasses import dataclass, replace
from multiprocessing.connection import wait as wait_for_any

from coverlock_sdk.scaling.job import Prepared, Row, VerificationJob
from coverlock_sdk.verifier.verifier import Verifier

_THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Part:
    """Files that are verified together, and the position of the first."""

    start: int
    files: list[str]


def verify_files(job: VerificationJob, files: Sequence[str], workers: int) -> Iterator[Row]:
    """Verify ``files`` with ``workers`` processes; rows come in the order of the files.

    A single worker is this process itself. Several share the machine: each runs one thread.
    """
    parts = [
        Part(start, list(files[start : start + job.max_batch]))
        for start in range(0, len(files), job.max_batch)
    ]
    if workers == 1:
        with job.open() as verifier:
            for part in parts:
                yield from job.check(verifier, part.files)
        return
    job = replace(job, threads=job.threads or 1)
    job.open().close()  # what is wrong with the job itself is said once, and here
    finished: dict[int, list[Row]] = {}
    position = 0
    for part, rows in _shared_out(job, parts, workers):
        finished[part.start] = rows
        while position in finished:
            ready = finished.pop(position)
            position += len(ready)
            yield from ready


def _shared_out(
    job: VerificationJob, parts: Sequence[Part], workers: int
) -> Iterator[tuple[Part, list[Row]]]:
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
                        running[pool.submit(_check, part.files)] = part
                    except BrokenProcessPool:
                        interrupted.append(part)
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    part = running.pop(future)
                    try:
                        yield part, future.result()
                    except BrokenProcessPool:
                        interrupted.append(part)
        for part in interrupted:
            yield part, _again(job, part.files)


def _again(job: VerificationJob, files: list[str]) -> list[Row]:
    """Verify files whose process died, in halves until those to blame stand alone."""
    try:
        with _pool(job, 1) as pool:
            return pool.submit(_check, files).result()
    except BrokenProcessPool:
        if len(files) == 1:
            return [Prepared(files[0], None, f"a process died verifying {files[0]}").row(None)]
        middle = len(files) // 2
        return _again(job, files[:middle]) + _again(job, files[middle:])


@contextlib.contextmanager
def _pool(job: VerificationJob, workers: int) -> Iterator[ProcessPoolExecutor]:
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


_at_work: tuple[VerificationJob, Verifier]
"""Of a worker process: set once, when it starts."""


def _open(job: VerificationJob) -> None:
    global _at_work
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; this process's parent acts
    _at_work = job, job.open()


def _end_with_parent() -> None:
    """End this process when its parent does, even if that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for_any([parent.sentinel])
    os._exit(1)


def _check(files: list[str]) -> list[Row]:
    job, verifier = _at_work
    return job.check(verifier, files)

"""How many threads the SDK's own products use: one, because they are small.

A product of NumPy starts every thread of the machine. Small ones gain nothing, and where other
processes are busy the threads wait for each other: a picture then takes ten times as long.
"""

from __future__ import annotations

import os
import threading
from contextlib import ContextDecorator
from functools import cache
from typing import Any


class OneThread(ContextDecorator):
    """While anybody is inside, products of NumPy run on the thread that asked for them.

    The limit is the process's, so it lasts from the first who enters to the last who leaves.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = [library.num_threads for library in _libraries()]
                _set_threads([1] * len(self._before))
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                _set_threads(self._before)


one_thread = OneThread()


def let_idle_threads_sleep() -> None:
    """Make PyTorch's threads sleep instead of spin while they wait; call it before the import."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def thread_limit(threads: int | None) -> int | None:
    """How many threads a runtime may have: ``threads``, else what OMP_NUM_THREADS says."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return int(limit) if threads is None and limit.isdigit() else threads


@cache
def _libraries() -> list[Any]:
    """The libraries behind NumPy's products."""
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _set_threads(counts: list[int]) -> None:
    for library, count in zip(_libraries(), counts, strict=True):
        # From 3.8 on, threadpoolctl lets only the thread that set a limit change it.
        release = getattr(library, "clear_controlling_thread", lambda force: None)
        release(force=True)
        library.set_num_threads(count)
        release(force=True)

"""Several processes that answer on the same port, and the one that looks after them."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait as wait_for_any
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

from coverlock_sdk.errors import CoverLockError

logger = logging.getLogger(__name__)

Serve = Callable[[list[socket.socket]], None]
"""What a process does with the sockets that all of them listen on; it is sent to the process."""

LOOK_SECONDS = 0.5
PATIENCE_SECONDS = 1.0
"""Between the death of a process and the start of another."""
EARLY_SECONDS = 5.0
MOST_EARLY_DEATHS = 5
"""Processes that may die soon after their start, one after the other, before that is an error."""


class Workers:
    """Processes that are replaced when they die, and told what this one is told."""

    def __init__(
        self, serve: Serve, sockets: list[socket.socket], died: Callable[[int], None]
    ) -> None:
        self._serve = serve
        self._sockets = sockets
        self._died = died
        self._spawning = multiprocessing.get_context("spawn")
        self._running: dict[int, tuple[BaseProcess, float]] = {}
        self._stopping = False

    def run(self, count: int) -> None:
        """Keep ``count`` processes running until this one is told to stop."""
        told = [signal.SIGINT, signal.SIGTERM, *_RELOADS]
        before = {number: signal.signal(number, self._tell) for number in told}
        early = 0
        try:
            while not self._stopping or self._running:
                while not self._stopping and len(self._running) < count:
                    self._start()
                wait_for_any([p.sentinel for p, _ in self._running.values()], LOOK_SECONDS)
                for process, since in self._buried():
                    lived = time.monotonic() - since
                    early = early + 1 if lived < EARLY_SECONDS else 0
                    if early >= MOST_EARLY_DEATHS:
                        self._stop()
                        raise CoverLockError(
                            f"{early} processes of the service ended right after their start "
                            f"(the last with exit code {process.exitcode}): what they wrote "
                            "says why"
                        )
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _start(self) -> None:
        process = self._spawning.Process(target=_work, args=(self._serve, self._sockets))
        with _held_back(_RELOADS):  # the process is told when it can act on it
            process.start()
        assert process.pid is not None
        self._running[process.pid] = process, time.monotonic()

    def _buried(self) -> list[tuple[BaseProcess, float]]:
        """Processes that have ended; unless all are to stop, that is said and takes a moment."""
        ended = {pid: entry for pid, entry in self._running.items() if not entry[0].is_alive()}
        for pid, (process, _) in ended.items():
            del self._running[pid]
            self._died(pid)
            if not self._stopping:
                logger.warning(
                    "a process of the service ended (exit code %s) and is replaced",
                    process.exitcode,
                )
        if ended and not self._stopping:
            time.sleep(PATIENCE_SECONDS)
        return [] if self._stopping else list(ended.values())

    def _tell(self, number: int, frame: FrameType | None) -> None:
        """Pass a signal on."""
        if number not in _RELOADS:
            self._stopping = True
        for pid in self._running:
            _send(pid, signal.SIGTERM if number == signal.SIGINT else number)

    def _stop(self) -> None:
        self._tell(signal.SIGTERM, None)
        for process, _ in self._running.values():
            process.join()


_RELOADS = [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []


@contextlib.contextmanager
def _held_back(signals: list[signal.Signals]) -> Iterator[None]:
    """Let signals wait; a process that is started meanwhile lets them wait until it asks."""
    if not signals:
        yield
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)


def _work(serve: Serve, sockets: list[socket.socket]) -> None:
    if hasattr(os, "setpgrp"):
        os.setpgrp()  # a Ctrl-C reaches the parent, which tells the others once
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        serve(sockets)
    except CoverLockError as error:
        logger.error("error: %s", error)
        raise SystemExit(2) from None


def _end_with_parent() -> None:
    """Stop this process as usual when its parent is gone, even if that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for_any([parent.sentinel])
    _send(os.getpid(), signal.SIGTERM)


def _send(pid: int, number: Any) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)

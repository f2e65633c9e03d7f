"""Taking turns: a few places, and nobody who asks a lot keeps others waiting."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, deque
from collections.abc import Hashable, Iterator

from coverlock_sdk.errors import OverloadedError


class Turns:
    """Gives out ``places``: names take turns, and each name's requests are served in order.

    One name holds at most half of the places (and at least one), so that slow requests of one
    do not block another.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._most = max(1, places // 2)
        self._lock = threading.Lock()
        self._held: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[threading.Event]] = {}

    @contextlib.contextmanager
    def turn(self, name: Hashable, seconds: float) -> Iterator[None]:
        """Wait for a place for up to ``seconds``, and hold it."""
        called = threading.Event()
        with self._lock:
            self._waiting.setdefault(name, deque()).append(called)
            self._call()
        if not called.wait(seconds) and not self._gave_up(name, called):
            raise OverloadedError("too many pictures are waiting to be decoded: try again later")
        try:
            yield
        finally:
            with self._lock:
                self._held -= Counter([name])
                self._free += 1
                self._call()

    def _gave_up(self, name: Hashable, called: threading.Event) -> bool:
        """Whether a place came after all while its waiter was leaving; otherwise it is gone."""
        with self._lock:
            if called.is_set():
                return True
            self._waiting[name].remove(called)
            if not self._waiting[name]:
                del self._waiting[name]
            return False

    def _call(self) -> None:
        """Give free places to those who may have them; a name that was served goes last."""
        while self._free:
            ready = [name for name in self._waiting if self._held[name] < self._most][:1]
            if not ready:
                return
            [name] = ready
            waiting = self._waiting.pop(name)
            waiting.popleft().set()
            if waiting:
                self._waiting[name] = waiting
            self._held[name] += 1
            self._free -= 1

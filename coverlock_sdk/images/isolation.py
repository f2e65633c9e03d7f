"""Decoding strangers' pictures in processes that can be killed.

A decoder is a large piece of C that reads whatever a stranger sends. In a process of its own it can
take neither more time nor more memory than it is given, and when it crashes nobody else notices.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections import deque
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from coverlock_sdk.arrays import Pixels
from coverlock_sdk.errors import CoverLockError, PictureError
from coverlock_sdk.images.decoding_process import ANSWER, REQUEST, UP
from coverlock_sdk.images.picture import MAX_PIXELS
from coverlock_sdk.images.turns import Turns

PROCESSES = max(4, min(8, os.cpu_count() or 1))
SECONDS = 10.0
"""Of processor time for one picture: a busy machine is not the picture's fault."""
STALLED = 4
"""How many times as long a picture may take by the clock."""
PATIENCE = 60.0
"""Seconds that a picture waits for its turn."""

START_SECONDS = 60.0
"""For starting a process, which is not the fault of any picture."""

_BASE_MEMORY, _MEMORY_PER_PIXEL = 128_000_000, 16  # the most that any kind was seen to take

_INHERITED = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "TEMP")
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class DecodingPool:
    """Decodes picture files, a few at a time; callers take turns.

    A picture that takes longer than ``seconds``, needs more memory than one of ``max_pixels`` can,
    or crashes its decoder is a ``PictureError`` like any other bad picture. One that waits for
    longer than ``patience`` is an ``OverloadedError``.
    """

    def __init__(
        self,
        processes: int = PROCESSES,
        seconds: float = SECONDS,
        max_pixels: int = MAX_PIXELS,
        patience: float = PATIENCE,
    ) -> None:
        self.seconds = seconds
        self.patience = patience
        self.max_pixels = max_pixels
        self._turns = Turns(processes)
        memory = _BASE_MEMORY + _MEMORY_PER_PIXEL * max_pixels
        self._all = [_Decoder(memory) for _ in range(processes)]
        self._idle = deque(self._all)

    def pixels(
        self,
        content: bytes,
        size: tuple[int, int] | None = None,
        caller: Hashable = None,
        at_a_fraction: bool = False,
    ) -> Pixels:
        """The picture in a file of this ``content``, as 8-bit RGB (H, W, 3), perhaps at ``size``.

        Callers are whoever takes turns. A large JPEG may be decoded ``at_a_fraction`` of its size.
        """
        if not content:
            raise PictureError("the picture is empty (0 bytes)")
        with self._turns.turn(caller, self.patience):
            decoder = self._idle.pop()
            try:
                limits = self.max_pixels, self.seconds
                return decoder.pixels(content, size, *limits, at_a_fraction)
            finally:
                self._idle.append(decoder)

    def close(self) -> None:
        """End the processes."""
        for decoder in self._all:
            decoder.end()

    def __enter__(self) -> DecodingPool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Decoder:
    """One process, which is started when it is needed, and again when it is gone."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._process: Any = None

    def pixels(
        self,
        content: bytes,
        size: tuple[int, int] | None,
        max_pixels: int,
        seconds: float,
        at_a_fraction: bool,
    ) -> Pixels:
        if self._process is None:
            self._start()
        try:
            with self._limited(STALLED * seconds):
                shape = *(size or (0, 0)), at_a_fraction
                self._write(REQUEST.pack(len(content), seconds, max_pixels, *shape), content)
                about = json.loads(self._read(*ANSWER.unpack(self._read(ANSWER.size))))
                pixels = self._read(math.prod(about["shape"]))
        except TimeoutError:
            raise PictureError(f"the picture takes more than {seconds:g} s to decode") from None
        except EOFError:
            raise PictureError("the picture crashes its decoder or fills its memory") from None
        for warning in about["warnings"]:
            warnings.warn(warning, stacklevel=4)
        if about["error"]:
            raise PictureError(about["error"])
        return np.frombuffer(pixels, dtype=np.uint8).reshape(about["shape"])

    @contextlib.contextmanager
    def _limited(self, seconds: float) -> Iterator[None]:
        """Kill the process after ``seconds``, and bury it if it died meanwhile."""
        late, died, process = threading.Event(), False, self._process
        limit = threading.Timer(seconds, self._kill, [late])
        limit.start()
        try:
            yield
        except (OSError, EOFError):
            died = True
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1)  # it is about to, and says why
        limit.cancel()
        limit.join()
        if died or late.is_set():
            self.end()
            late_by_itself = process.returncode == -getattr(signal, "SIGPROF", 0)
            raise TimeoutError if late.is_set() or late_by_itself else EOFError

    def end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.stdout.close()
        process.wait()

    def _kill(self, late: threading.Event) -> None:
        late.set()
        self._process.kill()

    def _write(self, *parts: bytes) -> None:
        for part in parts:
            self._process.stdin.write(part)
        self._process.stdin.flush()

    def _read(self, length: int) -> bytes:
        content: bytes = self._process.stdout.read(length)
        if len(content) < length:
            raise EOFError
        return content

    def _start(self) -> None:
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment |= dict.fromkeys(_ONE_THREAD, "1")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "coverlock_sdk.images.decoding_process", str(self._memory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
            with self._limited(START_SECONDS):
                self._read(len(UP))
        except (OSError, EOFError) as error:
            raise CoverLockError(f"no process for pictures can be started ({error})") from None

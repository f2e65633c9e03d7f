"""Decoding strangers' pictures in processes that can be killed.

A decoder is a large piece of C that reads whatever a stranger sends. In a process of its own it can
take neither more time nor more memory than it is given, and when it crashes nobody else notices.
What comes back is checked, because a picture may have taken its decoder over. Callers take turns,
so that nobody who asks for a lot of work keeps others waiting.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from coverlock_sdk.errors import CoverLockError, OverloadedError, PictureError
from coverlock_sdk.images.decoding_process import ANSWER, REQUEST, UP
from coverlock_sdk.images.picture import MAX_PIXELS, MAX_SIDE, Picture

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage


PROCESSES = max(4, min(8, os.cpu_count() or 1))
SECONDS = 10.0
"""Of processor time for one picture: a busy machine is not the picture's fault."""
STALLED = 4
"""How many times as long a picture may take by the clock."""
PATIENCE = 60.0
"""Seconds that a picture waits for its turn."""

START_SECONDS = 60.0
"""For starting a process, which is not the fault of any picture."""

_BASE_MEMORY, _MEMORY_PER_PIXEL = 128_000_000, 28  # the most that any kind was seen to take

_INHERITED = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "TEMP")
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class DecodingPool:
    """Decodes picture files, a few at a time; callers take turns by the work that they cause.

    A picture that takes longer than ``seconds``, needs more memory than one of ``max_pixels`` can,
    or crashes its decoder is a ``PictureError`` like any other bad picture. One that waits for
    longer than ``patience`` is an ``OverloadedError``. ``observe`` is told, for each picture, its
    caller, how long it waited, and the processor time that it took.
    """

    def __init__(
        self,
        processes: int = PROCESSES,
        seconds: float = SECONDS,
        max_pixels: int = MAX_PIXELS,
        patience: float = PATIENCE,
        observe: Callable[[Hashable, float, float], None] = lambda caller, waited, worked: None,
    ) -> None:
        self.seconds = seconds
        self.patience = patience
        self.max_pixels = max_pixels
        self._observe = observe
        self._turns = Turns(processes)
        memory = _BASE_MEMORY + _MEMORY_PER_PIXEL * max_pixels
        self._all = [_Decoder(memory) for _ in range(processes)]
        self._idle = deque(self._all)

    def picture(
        self,
        content: bytes,
        size: tuple[int, int] | None = None,
        caller: Hashable = None,
        at_a_fraction: bool = False,
        patience: float | None = None,
    ) -> Picture:
        """The picture in a file of this ``content``, as 8-bit RGB, perhaps at ``size``.

        Callers are whoever takes turns. A large JPEG may be decoded ``at_a_fraction`` of its size.
        """
        with self._decoder(content, caller, patience) as decoder:
            about, pixels = decoder.ask(
                content, self.max_pixels, self.seconds, (*(size or (0, 0)), at_a_fraction, False)
            )
        shown = np.frombuffer(pixels, dtype=np.uint8).reshape(about["shape"])
        return Picture(shown, original_aspect=float(about["aspect"]))

    def image(
        self, content: bytes, caller: Hashable = None, patience: float | None = None
    ) -> tuple[PilImage, str]:
        """All of the picture in a file (size, depth, transparency, metadata), and its format."""
        from PIL import Image

        with self._decoder(content, caller, patience) as decoder:
            about, pixels = decoder.ask(content, self.max_pixels, self.seconds, (0, 0, False, True))
        image = Image.frombytes(about["mode"], tuple(about["size"]), pixels)
        for name, value in about["info"].items():
            is_bytes = isinstance(value, dict)
            image.info[name] = bytes.fromhex(value["hex"]) if is_bytes else tuple(value)
        return image, str(about["format"])

    @contextlib.contextmanager
    def _decoder(
        self, content: bytes, caller: Hashable, patience: float | None
    ) -> Iterator[_Decoder]:
        """A process that is free, when it is the turn of ``caller``."""
        if not content:
            raise PictureError("the picture is empty (0 bytes)")
        asked = time.monotonic()
        with self._turns.turn(caller, self.patience if patience is None else patience):
            waited = time.monotonic() - asked
            decoder = self._idle.pop()
            try:
                yield decoder
            finally:
                self._turns.charge(caller, decoder.worked)
                self._observe(caller, waited, decoder.worked)
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
        self.worked = 0.0
        """Processor time that the last picture took."""

    def ask(
        self, content: bytes, max_pixels: int, seconds: float, wanted: tuple[Any, ...]
    ) -> tuple[dict[str, Any], bytes]:
        """What the process says of a picture, and its pixels; ``wanted`` ends a ``REQUEST``."""
        if self._process is None:
            self._start()
        self.worked = seconds  # unless it says otherwise
        try:
            with self._limited(STALLED * seconds):
                self._write(REQUEST.pack(len(content), seconds, max_pixels, *wanted), content)
                [length] = ANSWER.unpack(self._read(ANSWER.size))
                if length > 1_000_000 + 3 * len(content):
                    raise EOFError
                about = json.loads(self._read(length))
                pixels = b"" if about["error"] else self._read(_length(about, max_pixels, wanted))
                self.worked = float(about["seconds"])
        except TimeoutError:
            raise PictureError(f"the picture takes more than {seconds:g} s to decode") from None
        except EOFError:
            raise PictureError("the picture crashes its decoder or fills its memory") from None
        for warning in about["warnings"]:
            warnings.warn(warning, stacklevel=5)
        if about["error"]:
            raise PictureError(about["error"])
        return about, pixels

    @contextlib.contextmanager
    def _limited(self, seconds: float) -> Iterator[None]:
        """Kill the process after ``seconds``, and bury it if it died meanwhile."""
        late, died, process = threading.Event(), False, self._process
        limit = threading.Timer(seconds, self._kill, [late])
        limit.start()
        try:
            yield
        except (OSError, EOFError, ValueError, KeyError, TypeError):  # it died, or lies
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


_PIXEL_BYTES = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "I;16": 2}
"""What a picture may come back as, and the bytes that a pixel of it takes."""


def _length(about: dict[str, Any], max_pixels: int, wanted: tuple[Any, ...]) -> int:
    """The bytes of pixels that an answer announces; an answer that cannot be is an error."""
    height, width, _, all_of_it = wanted
    if all_of_it:
        (columns, rows), each = about["size"], _PIXEL_BYTES[about["mode"]]
    else:
        (rows, columns, _), each = about["shape"], 3
    sides = 1 <= rows <= MAX_SIDE and 1 <= columns <= MAX_SIDE
    right = (rows, columns) == (height, width) if height else rows * columns <= max_pixels
    if not (sides and right):
        raise ValueError("no picture has this shape")
    return int(rows * columns * each)


HALF_LIFE = 10.0
"""Seconds after which work counts half as much when it is decided whose turn it is."""


@dataclass(eq=False)
class _Waiter:
    name: Hashable
    size: int
    called: threading.Event = field(default_factory=threading.Event)


class Turns:
    """Shares out ``places``: whoever had the least work done lately goes first.

    A name may not hold more than it leaves free. So a few names that ask for everything leave
    something for the next one, however slow their requests are. Where there is only one name
    (``shared`` is False), it may have everything.
    """

    def __init__(self, places: int) -> None:
        self.shared = True
        self._free = places
        self._lock = threading.Lock()
        self._held: Counter[Hashable] = Counter()
        self._work: dict[Hashable, tuple[float, float]] = {}
        self._waiting: list[_Waiter] = []

    @contextlib.contextmanager
    def turn(self, name: Hashable, seconds: float, size: int = 1) -> Iterator[None]:
        """Wait for ``size`` places for up to ``seconds``, and hold them."""
        waiter = _Waiter(name, size)
        with self._lock:
            self._waiting.append(waiter)
            self._call()
        if not waiter.called.wait(max(0.0, seconds)) and not self._came_after_all(waiter):
            raise OverloadedError("too many pictures are waiting: try again later")
        try:
            yield
        finally:
            with self._lock:
                self._held -= Counter({name: size})
                self._free += size
                self._call()

    def charge(self, name: Hashable, work: float) -> None:
        """Count ``work``, in seconds of a processor, against the next turns of ``name``."""
        with self._lock:
            now = time.monotonic()
            self._work[name] = self._recent(name, now) + work, now
            if len(self._work) > 1000:
                self._work = {n: w for n, w in self._work.items() if self._recent(n, now) > 1e-3}

    def _recent(self, name: Hashable, now: float) -> float:
        work, since = self._work.get(name, (0.0, now))
        return work * 0.5 ** ((now - since) / HALF_LIFE)

    def _came_after_all(self, waiter: _Waiter) -> bool:
        """Whether its place came while a waiter was leaving; otherwise it is gone."""
        with self._lock:
            if waiter.called.is_set():
                return True
            self._waiting.remove(waiter)
            self._call()  # it may have kept smaller ones waiting
            return False

    def _call(self) -> None:
        """Give free places to those whose turn it is."""
        now = time.monotonic()
        for waiter in sorted(self._waiting, key=lambda waiter: self._recent(waiter.name, now)):
            held = self._held[waiter.name] if self.shared else 0
            if held + waiter.size <= self._free:
                self._waiting.remove(waiter)
                self._held[waiter.name] += waiter.size
                self._free -= waiter.size
                waiter.called.set()
            elif held == 0:
                break  # the next one by right: smaller requests must not take its room
        self._held += Counter()  # looking made entries

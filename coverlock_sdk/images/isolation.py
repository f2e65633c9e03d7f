"""Decodes untrusted pictures in processes that can be killed.

A decoder is a large piece of C that reads whatever a stranger sends. In its own process, its time
and memory are limited, and a crash affects nothing else. Its answers are checked, because a picture
may have taken over its decoder. Callers take turns, so that heavy users do not keep others waiting.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from coverlock_sdk.errors import CoverLockError, OverloadedError, PictureError
from coverlock_sdk.images.decoding_process import DecodingAnswer, DecodingRequest
from coverlock_sdk.images.picture import MAX_PIXELS, MAX_SIDE, Picture

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

PROCESSES = max(4, min(8, os.cpu_count() or 1))
PATIENCE = 60.0
"""Seconds that a picture may wait for its turn, and that a process may take to start."""

_BASE_MEMORY, _MEMORY_PER_PIXEL = 128_000_000, 28  # the most that any kind took

_INHERITED = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "TEMP")
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class DecodingPool:
    """Decodes picture files, a few at a time; callers with the least work go first.

    A picture raises ``PictureError`` if it takes more than ``seconds`` of processor time (wall time
    would punish it for a busy machine), needs more memory than ``max_pixels`` allows, or crashes
    its decoder. It raises ``OverloadedError`` if it waits longer than ``patience``. ``observe`` is
    called with the caller of each picture, and how many seconds it waited and took.
    """

    def __init__(
        self,
        processes: int = PROCESSES,
        seconds: float = 10.0,
        max_pixels: int = MAX_PIXELS,
        observe: Callable[[Hashable, float, float], None] = lambda caller, waited, worked: None,
    ) -> None:
        self.seconds = seconds
        self.max_pixels = max_pixels
        self._observe = observe
        self._turns = Turns(processes)
        memory = _BASE_MEMORY + _MEMORY_PER_PIXEL * max_pixels
        self._all = [_Decoder(memory) for _ in range(processes)]
        self._idle = list(self._all)

    def picture(
        self,
        content: bytes,
        size: tuple[int, int] | None = None,
        caller: Hashable = None,
        at_a_fraction: bool = False,
        patience: float = PATIENCE,
    ) -> Picture:
        """The picture in a file of this ``content``, as 8-bit RGB, perhaps at ``size``.

        Turns go by ``caller``. A large JPEG may be decoded ``at_a_fraction`` of its size.
        """
        wanted = {"size": size, "at_a_fraction": at_a_fraction}
        answer, pixels = self._asked(content, caller, patience, wanted)
        shown = np.frombuffer(pixels, dtype=np.uint8).reshape(*answer.size, 3)
        return Picture(shown, original_aspect=answer.aspect)

    def image(
        self, content: bytes, caller: Hashable = None, patience: float = PATIENCE
    ) -> tuple[PilImage, str]:
        """The whole picture in a file (size, depth, transparency, metadata), and its format."""
        from PIL import Image

        answer, pixels = self._asked(content, caller, patience, {"all_of_it": True})
        height, width = answer.size
        image = Image.frombytes(answer.mode, (width, height), pixels)
        image.info.update(answer.info)
        return image, answer.format

    def _asked(
        self, content: bytes, caller: Hashable, patience: float, wanted: dict[str, Any]
    ) -> tuple[DecodingAnswer, bytes]:
        """Have a free process decode a picture when it is the turn of ``caller``."""
        request = DecodingRequest(len(content), self.seconds, self.max_pixels, **wanted)
        asked = time.monotonic()
        with self._turns.turn(caller, patience):
            waited = time.monotonic() - asked
            decoder, worked = self._idle.pop(), self.seconds
            try:
                answer, pixels = decoder.ask(content, request)
                worked = answer.seconds
            finally:
                self._turns.charge(caller, worked)
                self._observe(caller, waited, worked)
                self._idle.append(decoder)
        for warning in answer.warnings:
            warnings.warn(warning, stacklevel=3)
        if answer.error:
            raise PictureError(answer.error)
        return answer, pixels

    def close(self) -> None:
        """End the processes."""
        for decoder in self._all:
            decoder.end()


class _Decoder:
    """One process, which is started when needed, and again after it died."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._process: Any = None

    def ask(self, content: bytes, request: DecodingRequest) -> tuple[DecodingAnswer, bytes]:
        """The process's answer about a picture, and the pixels."""
        if self._process is None:
            self._start()
        seconds = request.seconds
        try:
            with self._limited(4 * seconds) as (to, out):  # by the clock, on a busy machine
                to.write(msgspec.json.encode(request) + b"\n")
                to.write(content)
                to.flush()
                line = out.readline(1_000_000 + 3 * len(content))
                answer = msgspec.json.decode(line, type=DecodingAnswer)
                length = 0 if answer.error else _length(answer, request)
                pixels = out.read(length)
                if len(pixels) < length:
                    raise EOFError
        except TimeoutError:
            raise PictureError(f"the picture takes more than {seconds:g} s to decode") from None
        except EOFError:
            raise PictureError("the picture crashes its decoder or fills its memory") from None
        return answer, pixels

    @contextlib.contextmanager
    def _limited(self, seconds: float) -> Iterator[tuple[Any, Any]]:
        """The pipes of the process, which is killed after ``seconds`` or a false answer."""
        process, start, failed = self._process, time.monotonic(), False
        limit = threading.Timer(seconds, process.kill)
        limit.start()
        try:
            yield process.stdin, process.stdout
        except Exception:
            failed = True
        limit.cancel()
        late = time.monotonic() - start >= seconds
        if failed or late:
            self.end()
            late_by_itself = process.returncode == -getattr(signal, "SIGPROF", 0)
            raise TimeoutError if late or late_by_itself else EOFError

    def end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with contextlib.suppress(OSError), process:
                pass  # closes its pipes and waits for it to end

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
            with self._limited(PATIENCE) as (_, out):
                if not out.readline():
                    raise EOFError
        except (OSError, EOFError) as error:
            raise CoverLockError(f"no decoding process can be started ({error})") from None


_PIXEL_BYTES = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "I;16": 2}  # every mode that may come back


def _length(answer: DecodingAnswer, request: DecodingRequest) -> int:
    """How many bytes of pixels an answer announces; raises if that is impossible."""
    rows, columns = answer.size
    fits = answer.size == request.size if request.size else rows * columns <= request.max_pixels
    if not (fits and 1 <= min(answer.size) <= max(answer.size) <= MAX_SIDE):
        raise ValueError("no picture has this size")
    return rows * columns * (_PIXEL_BYTES[answer.mode] if request.all_of_it else 3)


MUCH, HALF_LIFE = 0.25, 2.0
"""Seconds of recent work that are much, and seconds in which half of any work is forgotten.

The memory is short, so that a steady caller need not wait until new ones have worked as much.
"""


class Turns:
    """Hands out ``places``: the name with the least recent work goes first.

    A name may not hold more places than it leaves free; with ``MUCH`` recent work, it has to leave
    ``spared`` times as many. So even if some names collude and ask for everything with slow
    requests, places are left for the next. If there is only one name (``shared`` is False), it may
    hold all of them.
    """

    def __init__(self, places: int, spared: int = 1) -> None:
        self.shared = True
        self._free = places
        self._spared = spared
        self._lock = threading.Lock()
        self._held: Counter[Hashable] = Counter()
        self._work: dict[Hashable, tuple[float, float]] = {}
        self._waiting: dict[threading.Event, tuple[Hashable, int]] = {}

    @contextlib.contextmanager
    def turn(self, name: Hashable, seconds: float, size: int = 1) -> Iterator[None]:
        """Wait for ``size`` places for up to ``seconds``, and hold them."""
        called = threading.Event()
        with self._lock:
            self._waiting[called] = name, size
            self._call()
        if not called.wait(max(0.0, seconds)):
            with self._lock:
                if not called.is_set():  # it may have got its place meanwhile
                    del self._waiting[called]
                    self._call()  # it may have kept smaller ones waiting
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

    def _recent(self, name: Hashable, now: float) -> float:
        work, since = self._work.get(name, (0.0, now))
        return work * 0.5 ** ((now - since) / HALF_LIFE)

    def _call(self) -> None:
        """Give free places to those whose turn it is."""
        now = time.monotonic()
        by_work = sorted(self._waiting.items(), key=lambda item: self._recent(item[1][0], now))
        for called, (name, size) in by_work:
            if size <= self._room(name, now):
                del self._waiting[called]
                self._held[name] += size
                self._free -= size
                called.set()
            elif not self._held.get(name):
                break  # the next in line: smaller requests must not take its room

    def _room(self, name: Hashable, now: float) -> int:
        """How many places a name may take."""
        if not self.shared:
            return self._free
        spared = self._spared if self._recent(name, now) > MUCH else 1
        return self._free // spared - self._held.get(name, 0)

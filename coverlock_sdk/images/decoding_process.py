"""A process that decodes pictures which nobody vouches for: ``python -m`` starts it.

It reads requests from its input and answers on its output until the input ends, which also happens
when its parent dies. It has no secrets, and no more memory than it was given. On Linux a seccomp
filter leaves it memory, threads and its pipes: it opens no file and no socket, starts no program,
and sees no other process. ``isolation`` talks to it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import json
import os
import platform
import signal
import struct
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.codecs import open_image
from coverlock_sdk.images.conversion import opened, read
from coverlock_sdk.images.picture import MAX_PIXELS

REQUEST = struct.Struct(">QdQII??")
"""Length of the file that follows, processor time, most pixels, height and width of the answer,
whether a large JPEG may be decoded at a fraction of its size, and whether all of the picture is
wanted (its own size, depth, transparency, metadata). No height and width means its own."""
ANSWER = struct.Struct(">I")
"""Length of the JSON that follows; after it come the pixels, unless it has an error."""

UP = b"+"

NICENESS = 5
"""Whoever answers requests goes before whoever decodes pictures."""


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Say that this process is up, and answer requests until ``source`` ends."""
    sink.write(UP)
    sink.flush()
    while len(header := source.read(REQUEST.size)) == REQUEST.size:
        length, seconds, max_pixels, height, width, at_a_fraction, all_of_it = REQUEST.unpack(
            header
        )
        content = source.read(length)
        size = (height, width) if height else None
        start = time.process_time()
        with _limited(seconds):
            if all_of_it:
                about, pixels = _answer(_everything, content, max_pixels)
            else:
                about, pixels = _answer(_view, content, max_pixels, size, at_a_fraction)
        about["seconds"] = time.process_time() - start
        described = json.dumps(about).encode()
        sink.write(ANSWER.pack(len(described)) + described)
        sink.write(pixels)
        sink.flush()


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """End this process after so much processor time, whatever piece of C it is in."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.setitimer(signal.ITIMER_PROF, seconds)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)


def _view(
    content: bytes, max_pixels: int, size: tuple[int, int] | None, at_a_fraction: bool
) -> tuple[dict[str, Any], bytes]:
    seen = read(content, max_pixels, size if at_a_fraction else None).resampled(size)
    return {"shape": seen.pixels.shape, "aspect": seen.aspect}, seen.pixels.tobytes()


def _everything(content: bytes, max_pixels: int) -> tuple[dict[str, Any], bytes]:
    picture, restore = opened(content, max_pixels)
    image = restore(picture)
    info = {
        name: {"hex": value.hex()} if isinstance(value, bytes) else [float(v) for v in value]
        for name, value in image.info.items()
    }
    with open_image(io.BytesIO(content)) as file:
        about = {"mode": image.mode, "size": image.size, "info": info, "format": file.format}
    return about, image.tobytes()


def _answer(work: Callable[..., Any], *given: Any) -> tuple[dict[str, Any], bytes]:
    """What ``work`` returns, with the warnings that it gave, or the sentence that it raised."""
    about: dict[str, Any] = {}
    pixels, error = b"", None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            about, pixels = work(*given)
        except PictureError as problem:
            error = str(problem)
        except MemoryError:
            error = "the picture does not fit into memory"
        except Exception as problem:  # a bug of ours must not end the process
            error = f"the picture cannot be read ({type(problem).__name__})"
    told = [str(warning.message) for warning in caught]
    return {**about, "error": error, "warnings": told}, pixels


def warm_up() -> None:
    """Read a small picture of every format, because nothing can be imported later."""
    from PIL import Image, ImageCms, features

    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by its metadata
    pictures = [b"no picture", b"\0\0\0\x18ftypheic"]
    for kind, mode in (
        *(("PNG", mode) for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")),
        *(("JPEG", mode) for mode in ("L", "RGB", "CMYK")),
        *(("TIFF", mode) for mode in ("L", "RGB", "CMYK", "I;16")),
        *((kind, "RGB") for kind in ("WEBP", "GIF", "BMP", "AVIF")),
    ):
        if features.check(kind.lower()) is not False:
            file = io.BytesIO()
            with contextlib.suppress(OSError, ValueError, KeyError):
                Image.new(mode, (64, 64)).save(file, format=kind, icc_profile=profile, exif=exif)
                pictures.append(file.getvalue())
    for content in pictures:
        _answer(_view, content, MAX_PIXELS, (32, 32), True)
        _answer(_everything, content, MAX_PIXELS)


def confine(memory: int) -> None:
    """Give up what decoding does not need; what a system does not offer is left out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which acts
    with contextlib.suppress(AttributeError, OSError):
        os.nice(NICENESS)
    with contextlib.suppress(ImportError):
        import resource

        limits = {"DATA": memory, "FSIZE": 0, "CORE": 0}
        for kind, most in limits.items():
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(getattr(resource, f"RLIMIT_{kind}"), (most, most))
    confine_calls()


def main() -> None:
    """Answer on the standard streams."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as sink:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print is no answer
        warm_up()
        confine(int(sys.argv[1]))
        serve(sys.stdin.buffer, sink)


_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""The column of each machine in the table below, and how audit(7) names it."""
_ALLOWED = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "getpid": (39, 172),
    "exit": (60, 93),
    "getrusage": (98, 165),
    "gettimeofday": (96, 169),
    "sigaltstack": (131, 132),
    "setitimer": (38, 103),
    "gettid": (186, 178),
    "futex": (202, 98),
    "sched_getaffinity": (204, 123),
    "exit_group": (231, 94),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "set_robust_list": (273, 99),
    "getrandom": (318, 278),
    "membarrier": (324, 283),
    "rseq": (334, 293),
    "getcpu": (309, 168),
    "restart_syscall": (219, 128),
}
_CLONE, _CLONE3, _SECCOMP = (56, 220), (435, 435), (317, 277)
_CLONE_THREAD = 0x00010000
_SET_NO_NEW_PRIVS, _SET_MODE_FILTER, _ALL_THREADS = 38, 1, 1
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def confine_calls() -> bool:
    """Allow nothing but decoding from now on, in all threads; False where that is not possible."""
    if not sys.platform.startswith("linux") or platform.machine() not in _MACHINES:
        return False
    column, name = _MACHINES[platform.machine()]
    content = _filter(column, name)
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    program = _Program(len(content) // 8, content)
    arguments = (_SET_MODE_FILTER, _ALL_THREADS, ctypes.byref(program))
    return int(library.syscall(_SECCOMP[column], *arguments)) == 0


def _filter(column: int, machine: int) -> bytes:
    """A program for the kernel: which calls of a machine are let through."""

    def step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
        return struct.pack("=HBBI", code, if_true, if_false, value)

    steps = [
        step(_LOAD, 4),  # the machine that the call is for
        step(_EQUAL, machine, 1, 0),
        step(_RETURN, _KILL),
        step(_LOAD, 0),  # the number of the call
    ]
    for numbers in _ALLOWED.values():
        steps += [step(_EQUAL, numbers[column], 0, 1), step(_RETURN, _ALLOW)]
    steps += [
        # Its flags are out of a filter's reach; without it the C library falls back on clone.
        step(_EQUAL, _CLONE3[column], 0, 1),
        step(_RETURN, _ERROR | errno.ENOSYS),
        step(_EQUAL, _CLONE[column], 0, 3),  # threads, which some decoders start, but no processes
        step(_LOAD, 16),
        step(_ANY_BIT, _CLONE_THREAD, 0, 1),
        step(_RETURN, _ALLOW),
        step(_RETURN, _ERROR | errno.EPERM),
    ]
    return b"".join(steps)


if __name__ == "__main__":
    main()

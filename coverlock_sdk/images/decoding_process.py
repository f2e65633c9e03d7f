"""The process that decodes untrusted pictures, started with ``python -m``.

It reads requests from its input and answers on its output until the input ends, which also happens
if its parent dies. It has no secrets, and its memory is limited. On Linux, a seccomp filter keeps
it from files, sockets, programs and other processes. ``isolation`` talks to it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import os
import platform
import signal
import struct
import sys
import time
import warnings
from itertools import product
from typing import BinaryIO

import msgspec

from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.codecs import open_image
from coverlock_sdk.images.conversion import opened, read
from coverlock_sdk.images.picture import MAX_PIXELS


class DecodingRequest(msgspec.Struct):
    """A request, as a line of JSON; a picture file of ``length`` bytes follows it."""

    length: int
    seconds: float
    """Limit on processor time."""
    max_pixels: int
    size: tuple[int, int] | None = None
    """Height and width of the decoded picture; None for its own."""
    at_a_fraction: bool = False
    """Whether a large JPEG may be decoded at a fraction of its size."""
    all_of_it: bool = False
    """Whether to return the whole picture: its own size, depth, transparency and metadata."""


class DecodingAnswer(msgspec.Struct):
    """An answer, as a line of JSON; pixels follow it unless it has an error."""

    size: tuple[int, int] = (0, 0)
    mode: str = "RGB"
    aspect: float = 1.0
    format: str = ""
    info: dict[str, bytes | tuple[float, ...]] = {}
    error: str | None = None
    warnings: list[str] = []
    seconds: float = 0.0


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Say that this process is up, and answer requests until ``source`` ends."""
    sink.write(b"\n")
    sink.flush()
    while line := source.readline():
        request = msgspec.json.decode(line, type=DecodingRequest)
        content = source.read(request.length)
        start = time.process_time()
        _end_after(request.seconds)
        answer, pixels = _answer(content, request)
        _end_after(0)
        answer.seconds = time.process_time() - start
        sink.write(msgspec.json.encode(answer) + b"\n")
        sink.write(pixels)
        sink.flush()


def _end_after(seconds: float) -> None:
    """End this process after this much processor time, even inside C code; 0 means never."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _answer(content: bytes, request: DecodingRequest) -> tuple[DecodingAnswer, bytes]:
    """The picture with any warnings, or the sentence of its error."""
    answer, pixels = DecodingAnswer(), b""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer, pixels = (_everything if request.all_of_it else _view)(content, request)
        except PictureError as problem:
            answer.error = str(problem)
        except MemoryError:
            answer.error = "the picture does not fit into memory"
        except Exception as problem:  # a bug of ours must not end the process
            answer.error = f"the picture cannot be read ({type(problem).__name__})"
    answer.warnings = [str(warning.message) for warning in caught]
    return answer, pixels


def _view(content: bytes, request: DecodingRequest) -> tuple[DecodingAnswer, bytes]:
    seen_at = request.size if request.at_a_fraction else None
    seen = read(content, request.max_pixels, seen_at).resampled(request.size)
    return DecodingAnswer(seen.size, aspect=seen.aspect), seen.pixels.tobytes()


def _everything(content: bytes, request: DecodingRequest) -> tuple[DecodingAnswer, bytes]:
    picture, restore = opened(content, request.max_pixels)
    image = restore(picture)
    info = {
        name: value if isinstance(value, bytes) else tuple(map(float, value))
        for name, value in image.info.items()
    }
    with open_image(io.BytesIO(content)) as file:
        answer = DecodingAnswer(picture.size, image.mode, format=file.format or "", info=info)
    return answer, image.tobytes()


def warm_up() -> None:
    """Read a small picture in every format, because nothing can be imported later."""
    from PIL import Image, ImageCms

    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by its metadata
    pictures = [b"no picture", b"\0\0\0\x18ftypheic"]
    modes = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16")
    for kind, mode in product(("PNG", "JPEG", "TIFF", "WEBP", "GIF", "BMP", "AVIF"), modes):
        file = io.BytesIO()
        with contextlib.suppress(OSError, ValueError, KeyError):  # Pillow may lack it
            Image.new(mode, (64, 64)).save(file, format=kind, icc_profile=profile, exif=exif)
            pictures.append(file.getvalue())
    for content in pictures:
        _answer(content, DecodingRequest(0, 0.0, MAX_PIXELS, (32, 32), at_a_fraction=True))
        _answer(content, DecodingRequest(0, 0.0, MAX_PIXELS, all_of_it=True))


def confine(memory: int) -> None:
    """Give up everything that decoding does not need, as far as the system allows."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent also gets Ctrl-C and handles it
    with contextlib.suppress(AttributeError, OSError):
        os.nice(10)  # answering requests has priority over decoding pictures
    with contextlib.suppress(ImportError):
        import resource

        for kind, most in (("DATA", memory), ("FSIZE", 0), ("CORE", 0)):
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(getattr(resource, f"RLIMIT_{kind}"), (most, most))
    confine_calls()


def main() -> None:
    """Answer on the standard streams."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as sink:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libraries' output is no answer
        warm_up()
        confine(int(sys.argv[1]))
        serve(sys.stdin.buffer, sink)


_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""The column of each machine in the table below, and how audit(7) names it."""
_ALLOWED = """
read 0 63               write 1 64              close 3 57              fstat 5 80
lseek 8 62              mmap 9 222              mprotect 10 226         munmap 11 215
brk 12 214              rt_sigaction 13 134     rt_sigprocmask 14 135   rt_sigreturn 15 139
sched_yield 24 124      mremap 25 216           madvise 28 233          getpid 39 172
exit 60 93              getrusage 98 165        gettimeofday 96 169     sigaltstack 131 132
setitimer 38 103        gettid 186 178          futex 202 98            sched_getaffinity 204 123
exit_group 231 94       clock_gettime 228 113   clock_nanosleep 230 115 set_robust_list 273 99
getrandom 318 278       membarrier 324 283      rseq 334 293            getcpu 309 168
restart_syscall 219 128
"""
"""Allowed system calls: their names, and numbers on x86_64 and aarch64."""
_CLONE, _CLONE3, _SECCOMP, _CLONE_THREAD = (56, 220), (435, 435), (317, 277), 0x00010000
_SET_NO_NEW_PRIVS, _SET_MODE_FILTER, _ALL_THREADS = 38, 1, 1
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000


def confine_calls() -> None:
    """Allow only decoding from now on, in all threads, if the system supports it."""
    if not sys.platform.startswith("linux") or platform.machine() not in _MACHINES:
        return
    column, name = _MACHINES[platform.machine()]
    library, steps = ctypes.CDLL(None), _filter(column, name)
    content = ctypes.create_string_buffer(steps, len(steps))
    program = struct.pack("HP", len(steps) // 8, ctypes.addressof(content))
    library.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    library.syscall(_SECCOMP[column], _SET_MODE_FILTER, _ALL_THREADS, program)


def _filter(column: int, machine: int) -> bytes:
    """A filter program for the kernel: which calls are allowed on a machine.

    A step is a code, how many steps to skip if it holds and if not, and a value.
    """
    step = struct.Struct("=HBBI").pack
    steps = [
        step(_LOAD, 0, 0, 4),  # the machine that the call is for
        step(_EQUAL, 1, 0, machine),
        step(_RETURN, 0, 0, _KILL),
        step(_LOAD, 0, 0, 0),  # the number of the call
    ]
    for number in map(int, _ALLOWED.split()[1 + column :: 3]):
        steps += [step(_EQUAL, 0, 1, number), step(_RETURN, 0, 0, _ALLOW)]
    steps += [
        # A filter cannot see its flags; without it, the C library falls back to clone.
        step(_EQUAL, 0, 1, _CLONE3[column]),
        step(_RETURN, 0, 0, _ERROR | errno.ENOSYS),
        step(_EQUAL, 0, 3, _CLONE[column]),  # threads, which some decoders start, not processes
        step(_LOAD, 0, 0, 16),
        step(_ANY_BIT, 0, 1, _CLONE_THREAD),
        step(_RETURN, 0, 0, _ALLOW),
        step(_RETURN, 0, 0, _ERROR | errno.EPERM),
    ]
    return b"".join(steps)


if __name__ == "__main__":
    main()

"""A process that decodes pictures which nobody vouches for: ``python -m`` starts it.

It reads requests from its input and answers on its output until the input ends, which also happens
when its parent dies. It has no secrets, may not write files, and gets no more memory than it was
told. ``isolation`` talks to it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import struct
import sys
import warnings
from collections.abc import Iterator
from typing import Any, BinaryIO

from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.picture import MAX_PIXELS

REQUEST = struct.Struct(">QdQII?")
"""Length of the file that follows, processor time, most pixels, height and width of the answer, and
whether a large JPEG may be decoded at a fraction of its size; no height and width means its own."""
ANSWER = struct.Struct(">I")
"""Length of the JSON that follows; after it come the pixels, unless it has an error."""

UP = b"+"

NICENESS = 5
"""Whoever answers requests goes before whoever decodes pictures."""


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Say that this process is up, and answer requests until ``source`` ends."""
    _decoded(_picture(), MAX_PIXELS, (64, 64))  # what is imported on the way takes its time
    sink.write(UP)
    sink.flush()
    while len(header := source.read(REQUEST.size)) == REQUEST.size:
        length, seconds, max_pixels, height, width, at_a_fraction = REQUEST.unpack(header)
        content = source.read(length)
        with _limited(seconds):
            size = (height, width) if height else None
            about, pixels = _decoded(content, max_pixels, size, at_a_fraction)
        described = json.dumps(about).encode()
        sink.write(ANSWER.pack(len(described)) + described + pixels)
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


def _picture() -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (64, 64)).save(file, format="PNG")
    return file.getvalue()


def _decoded(
    content: bytes, max_pixels: int, size: tuple[int, int] | None, at_a_fraction: bool = False
) -> tuple[dict[str, Any], bytes]:
    """What is said of a picture, and its pixels at ``size``."""
    pixels, error, shape = b"", None, (0, 0, 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            seen = read(content, max_pixels, size if at_a_fraction else None).to_bytes(size)
            pixels, shape = seen.tobytes(), seen.shape
        except PictureError as problem:
            error = str(problem)
        except MemoryError:
            error = "the picture does not fit into memory"
        except Exception as problem:  # a bug of ours must not end the process
            error = f"the picture cannot be read ({type(problem).__name__})"
    told = [str(warning.message) for warning in caught]
    return {"error": error, "warnings": told, "shape": shape}, pixels


def confine(memory: int) -> None:
    """Give up what decoding does not need; what a system does not offer is left out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which acts
    with contextlib.suppress(AttributeError, OSError):
        os.nice(NICENESS)
    try:
        import resource
    except ImportError:
        return
    for kind, most in ((resource.RLIMIT_DATA, memory), (resource.RLIMIT_FSIZE, 0)):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (most, most))
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Answer on the standard streams."""
    confine(int(sys.argv[1]))
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as sink:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print is no answer
        serve(sys.stdin.buffer, sink)


if __name__ == "__main__":
    main()

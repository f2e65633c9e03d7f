"""Writing files completely or not at all, and telling them apart."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from pathlib import Path

_BINARY = getattr(os, "O_BINARY", 0)


def write_atomically(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write through a temporary file in the same folder, so that nothing half-written remains.

    The file gets ``mode`` as far as the umask of the process allows, as every new file does. It is
    on the disk when this returns, also if the machine loses its power then.
    """
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _flush_folder(path.parent)


def make_private(path: Path) -> None:
    """Make an empty file that only its owner can read; what is there already stays as it is."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))


def _flush_folder(folder: Path) -> None:
    """Bring the new name to the disk, where a system lets folders be flushed."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def file_digest(path: Path) -> str:
    """The SHA-256 of a file in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()

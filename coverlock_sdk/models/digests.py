"""Files that are checked whenever they are used, and not only when they were fetched."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from coverlock_sdk.documents import Document, DocumentError, read_file
from coverlock_sdk.errors import CorruptModelError
from coverlock_sdk.files import write_atomically

RECORD = "digests.json"
"""The file that holds the digests of the files beside it, where our code does not pin them."""


def require_digests(folder: Path, digests: Mapping[str, str], remedy: str) -> None:
    """Refuse a folder in which a file is missing or is not the one that ``digests`` names."""
    for name, expected in digests.items():
        file = folder / name
        try:
            found = _current_digest(file)
        except OSError as error:
            raise CorruptModelError(
                f"{file} cannot be read ({error.strerror or error}): {remedy}"
            ) from None
        if found != expected:
            raise CorruptModelError(
                f"{file} is not the file it should be (its SHA-256 differs): {remedy}"
            )


def record_digests(folder: Path, *names: str) -> None:
    """Note the digests of files in a folder, to be checked by ``require_recorded``."""
    digests = {name: _current_digest(folder / name) for name in names}
    write_atomically(folder / RECORD, json.dumps({"sha256": digests}, indent=2).encode() + b"\n")


def require_recorded(folder: Path, remedy: str) -> None:
    """Refuse a folder whose files are not as they were recorded; one without a record passes."""
    if not (folder / RECORD).exists():
        return
    try:
        digests = Document.parsed(read_file(folder / RECORD)).mapping("sha256")
    except DocumentError as error:
        raise CorruptModelError(f"{folder / RECORD} is damaged ({error}): {remedy}") from None
    require_digests(folder, {Path(name).name: digest for name, digest in digests.items()}, remedy)


def _current_digest(file: Path) -> str:
    state = file.stat()
    return _digest(str(file), state.st_mtime_ns, state.st_size, state.st_ino)


@lru_cache(maxsize=256)
def _digest(path: str, changed: int, size: int, node: int) -> str:
    """The digest of a file; read again only where the file may have changed."""
    digest = hashlib.sha256()
    with open(os.fspath(path), "rb") as file:  # noqa: PTH123 (a string is what can be cached)
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()

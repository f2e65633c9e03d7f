"""Files that other machines and other people wrote: as they should be, or a ``DocumentError``.

Nothing of a JSON file is used before msgspec has checked its type, its range and its length.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

import msgspec

from coverlock_sdk.errors import CoverLockError

MOST_BYTES = 64_000_000

Kind = TypeVar("Kind")


class DocumentError(CoverLockError):
    """A file, or an entry of it, is not what it should be."""


def read_file(path: str | os.PathLike[str], most: int = MOST_BYTES) -> bytes:
    """The content of a file that is not larger than ``most`` bytes."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(most + 1)
    except FileNotFoundError:
        raise DocumentError(f"{path} does not exist") from None
    except OSError as error:
        raise DocumentError(f"{path} cannot be read ({error.strerror or error})") from None
    except ValueError:  # a NUL, which no name of a file has
        raise DocumentError(f"{str(path)!r} is not the name of a file") from None
    if len(content) > most:
        raise DocumentError(f"{path} has more than {most:,} bytes")
    return content


def parsed(content: bytes, kind: type[Kind]) -> Kind:
    """Strict JSON as a ``kind``: a dataclass, or a plain type such as ``dict[str, str]``."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"its JSON is not as it should be: {error}") from None

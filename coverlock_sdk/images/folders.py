"""Which pictures the files, folders and patterns that a user names stand for."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.codecs import PICTURE_SUFFIXES


@dataclass(frozen=True)
class Source:
    """A picture to process, and where it lies below the folder that was named."""

    path: Path
    relative: Path


def find_pictures(arguments: Iterable[str]) -> list[Source]:
    """The pictures that files, folders (searched in depth) and patterns name, in a stable order."""
    sources: list[Source] = []
    for argument in arguments:
        path = Path(argument)
        if path.is_dir():
            found = sorted(p for p in path.rglob("*") if p.suffix.lower() in PICTURE_SUFFIXES)
            if not found:
                raise PictureError(f"the folder {path} contains no pictures")
            sources += [Source(p, p.relative_to(path)) for p in found]
        elif not path.exists() and glob.has_magic(argument):
            names = glob.glob(argument, recursive=True)  # noqa: PTH207 (it may be absolute)
            matched = sorted(path for path in map(Path, names) if path.is_file())
            if not matched:
                raise PictureError(f"no file matches '{argument}'")
            sources += [Source(p, Path(p.name)) for p in matched]
        else:
            sources.append(Source(path, Path(path.name)))
    return sources

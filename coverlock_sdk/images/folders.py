"""Which pictures the files, folders and patterns that a user names stand for."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath

from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.codecs import HEAD_BYTES, PICTURE_SUFFIXES, begins_like_a_picture


@dataclass(frozen=True)
class Source:
    """A picture to process, and where it lies below the folder that was named."""

    path: Path
    relative: Path


@dataclass(frozen=True)
class Found:
    """The pictures that were found, and how many other files lay beside them."""

    pictures: list[Source]
    skipped: int
    """Files of folders that are not pictures; hidden ones do not count."""


def find_pictures(arguments: Iterable[str]) -> list[Source]:
    """The pictures that files, folders (searched in depth) and patterns name, in a stable order."""
    return search(arguments).pictures


def search(arguments: Iterable[str]) -> Found:
    """The pictures that ``arguments`` name, and how many files of folders were skipped."""
    sources: list[Source] = []
    skipped = 0
    for argument in arguments:
        path = Path(argument)
        if path.is_dir():
            pictures, others = _sorted_out(path, deep=True)
            sources += [Source(p, p.relative_to(path)) for p in pictures]
            skipped += others
        elif not path.exists() and glob.has_magic(argument):
            names = glob.glob(argument, recursive=True)  # noqa: PTH207 (it may be absolute)
            matched = sorted(path for path in map(Path, names) if path.is_file())
            if not matched:
                raise PictureError(f"no file matches '{argument}'")
            sources += [Source(p, Path(p.name)) for p in matched]
        else:
            sources.append(Source(path, Path(path.name)))
    return Found(sources, skipped)


def pictures_in(folder: Path, deep: bool = True) -> list[Path]:
    """The pictures of a folder in a stable order, with ``deep`` those of its subfolders too."""
    return _sorted_out(folder, deep)[0]


def is_picture(name: str, first_bytes: Callable[[], bytes]) -> bool:
    """Whether a file of a folder is a picture: its suffix tells or, without one, its content.

    ``first_bytes`` is called only where the name does not tell.
    """
    suffix = PurePath(name).suffix.lower()
    return suffix in PICTURE_SUFFIXES or (not suffix and begins_like_a_picture(first_bytes()))


def is_hidden(relative: PurePath) -> bool:
    """Whether a file of a folder is hidden, or lies in a hidden folder.

    macOS leaves such files beside pictures: ``._a.jpg`` holds the attributes of ``a.jpg``.
    """
    return any(part.startswith(".") for part in relative.parts)


def _sorted_out(folder: Path, deep: bool) -> tuple[list[Path], int]:
    """The pictures of a folder, and how many other files it has; an error where it has none."""
    entries = folder.rglob("*") if deep else folder.iterdir()
    shown = sorted(path for path in entries if not is_hidden(path.relative_to(folder)))
    files = [path for path in shown if not path.is_dir()]
    pictures = [path for path in files if is_picture(path.name, partial(_head, path))]
    others = len(files) - len(pictures)
    if not pictures:
        beside = f", only {others} other file{'s' * (others > 1)}" if others else ""
        raise PictureError(f"the folder {folder} contains no pictures{beside}")
    return pictures, others


def _head(path: Path) -> bytes:
    try:
        if not path.is_file():  # a pipe would keep its reader waiting
            return b""
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError:
        return b""

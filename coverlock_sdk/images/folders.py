"""Finds the pictures in files, folders and patterns, and decides where marked ones go."""

from __future__ import annotations

import glob
import hashlib
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath

from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.codecs import (
    PICTURE_SUFFIXES,
    WRITTEN,
    default_output,
    require_format,
)

HELD_OUT = 0.1
"""The share of a collection held out from fitting."""


@dataclass(frozen=True)
class Source:
    """A picture to process, and its place below the folder that was named."""

    path: Path
    relative: Path


@dataclass(frozen=True)
class FoundPictures:
    """The pictures that were found, and how many other files lay beside them."""

    pictures: list[Source]
    skipped: int
    """Number of files in folders that are not pictures, without hidden ones."""


def find_pictures(arguments: Iterable[str]) -> list[Source]:
    """The pictures in files, folders (with subfolders) and patterns, in a stable order."""
    return search(arguments).pictures


def search(arguments: Iterable[str]) -> FoundPictures:
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
    return FoundPictures(sources, skipped)


def pictures_in(folder: Path, deep: bool = True) -> list[Path]:
    """The pictures in a folder in a stable order; with ``deep``, also those in subfolders."""
    return _sorted_out(folder, deep)[0]


def split(folder: Path, held_out: float) -> tuple[list[Path], list[Path]]:
    """The pictures of ``folder`` for training, and the share of them held out for validation."""
    paths = pictures_in(folder, deep=False)
    validation = [path for path in paths if is_held_out(path, held_out)]
    training = [path for path in paths if not is_held_out(path, held_out)]
    if len(training) < 2 or not validation:
        raise PictureError(f"{folder} holds too few pictures to train on ({len(paths)})")
    return training, validation


def is_held_out(path: Path, share: float = HELD_OUT) -> bool:
    """Whether a picture belongs to the held-out ``share``, decided by its name."""
    draw = int.from_bytes(hashlib.sha256(path.stem.encode()).digest()[:4], "big") / 2**32
    return draw < share


def is_picture(path: PurePath) -> bool:
    """Whether a file of a folder is a picture, by its suffix."""
    return path.suffix.lower() in PICTURE_SUFFIXES


def is_hidden(relative: PurePath) -> bool:
    """Whether a file is hidden or in a hidden folder, such as macOS's ``._a.jpg``."""
    return any(part.startswith(".") for part in relative.parts)


def _sorted_out(folder: Path, deep: bool) -> tuple[list[Path], int]:
    """The pictures in a folder, and how many other files it has; a folder needs a picture."""
    entries = folder.rglob("*") if deep else folder.iterdir()
    shown = sorted(path for path in entries if not is_hidden(path.relative_to(folder)))
    files = [path for path in shown if not path.is_dir()]
    pictures = [path for path in files if is_picture(path)]
    others = len(files) - len(pictures)
    if not pictures:
        beside = f", only {others} other file{'s' * (others > 1)}" if others else ""
        raise PictureError(f"the folder {folder} contains no pictures{beside}")
    return pictures, others


KEEP = "keep"
FORMATS = {"png": ".png", "jpg": ".jpg", "webp": ".webp", "tiff": ".tiff", "avif": ".avif"}
"""Formats that marked pictures are written in, by the name that users type."""


def output_paths(
    sources: list[Source], out: Path | None, file_format: str = "png"
) -> dict[Source, Path]:
    """Where to write each picture; a.png and a.jpg in one folder do not overwrite each other.

    ``file_format`` sets the suffix; "keep" uses that of the original, or ``.png`` if its format
    cannot be written. The output of an earlier run over the same folder is not marked again.
    """
    if out is not None and out.suffix and not out.is_dir():
        if len(sources) > 1:
            raise PictureError(
                f"{out} is one file, but there are {len(sources)} pictures: name a folder"
            )
        require_format(out.suffix)
        return {sources[0]: out}
    targets: dict[Path, Source] = {}
    for source in dict.fromkeys(sources):
        original = source.path if out is None else out / source.relative
        suffix = source.path.suffix.lower() if file_format == KEEP else FORMATS[file_format]
        suffix = suffix if suffix in WRITTEN else FORMATS["png"]
        target, attempt = default_output(original, suffix), 1
        while target in targets:
            attempt += 1
            target = default_output(original.with_stem(f"{original.stem}-{attempt}"), suffix)
        targets[target] = source
    written = {target.resolve() for target in targets}
    return {s: target for target, s in targets.items() if s.path.resolve() not in written}


def make_writable(folders: Iterable[Path]) -> None:
    """Check, before marking anything, that ``folders`` can be written to."""
    for folder in sorted(folders):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise PictureError(
                f"nothing can be written to the folder {folder} ({error.strerror}): "
                "choose another one"
            ) from None

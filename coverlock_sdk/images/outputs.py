"""Where marked pictures go."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.codecs import (
    LOSSLESS_SUFFIXES,
    LOSSY_SUFFIXES,
    default_output,
    require_format,
)
from coverlock_sdk.images.folders import Source

KEEP = "keep"
FORMATS = {"png": ".png", "jpg": ".jpg", "webp": ".webp", "tiff": ".tiff", "avif": ".avif"}
"""Formats that marked pictures are written in, by the name that users type."""


def output_paths(
    sources: list[Source], out: Path | None, file_format: str = "png"
) -> dict[Source, Path]:
    """Where each picture goes; a.png and a.jpg of one folder do not overwrite each other.

    Names end as ``file_format`` says; with "keep" as the original does, or ``.png`` if nothing is
    written in its format.

    What an earlier run over the same folder wrote is not marked again.
    """
    if out is not None and out.suffix and not out.is_dir():
        if len(sources) > 1:
            raise PictureError(
                f"{out} is one file, but there are {len(sources)} pictures: name a folder"
            )
        require_format(out.suffix)
        return {sources[0]: out}
    targets: dict[Source, Path] = {}
    taken: set[Path] = set()
    for source in dict.fromkeys(sources):
        original = source.path if out is None else out / source.relative
        suffix = _suffix(source.path, file_format)
        target = default_output(original, suffix)
        attempt = 1
        while target in taken:
            attempt += 1
            target = default_output(original.with_stem(f"{original.stem}-{attempt}"), suffix)
        targets[source] = target
        taken.add(target)
    written = {target.resolve() for target in taken}
    return {s: target for s, target in targets.items() if s.path.resolve() not in written}


def _suffix(source: Path, file_format: str) -> str:
    if file_format != KEEP:
        return FORMATS[file_format]
    suffix = source.suffix.lower()
    return suffix if suffix in (*LOSSLESS_SUFFIXES, *LOSSY_SUFFIXES) else FORMATS["png"]


def make_writable(folders: Iterable[Path]) -> None:
    """Make sure, before any picture is marked, that marked ones can be written to ``folders``."""
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

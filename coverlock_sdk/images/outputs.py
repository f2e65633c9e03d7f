"""Where marked pictures go."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.codecs import default_output, require_format
from coverlock_sdk.images.folders import Source


def output_paths(sources: list[Source], out: Path | None) -> dict[Source, Path]:
    """Where each picture goes; a.png and a.jpg of one folder do not overwrite each other.

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
        target = default_output(original)
        attempt = 1
        while target in taken:
            attempt += 1
            target = default_output(original.with_stem(f"{original.stem}-{attempt}"))
        targets[source] = target
        taken.add(target)
    written = {target.resolve() for target in taken}
    return {s: target for s, target in targets.items() if s.path.resolve() not in written}


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

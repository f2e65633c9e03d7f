"""``coverlock embed``"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from coverlock_sdk.cli.batch import process
from coverlock_sdk.cli.exit_codes import HELP
from coverlock_sdk.cli.opening import chosen_message, open_lock
from coverlock_sdk.cli.options import json_option, lock_options, message_options, sources_argument
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.codecs import default_output
from coverlock_sdk.images.folders import Found, Source, search

COLUMNS = {"out": "marked picture", "psnr": "PSNR dB", "matches": "bits read", "p_value": "p"}


@click.command(epilog=HELP)
@sources_argument
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="Output file, or folder for several pictures; beside the originals if not given.",
)
@message_options
@lock_options
@click.option(
    "--harden",
    is_flag=True,
    help="Make the lock survive distortions better, for seconds and up to 0.5 dB a picture.",
)
@json_option
def embed(
    sources: tuple[str, ...],
    out: Path | None,
    identifier: str | None,
    bits: str | None,
    as_json: bool,
    **lock_settings: Any,
) -> None:
    """Mark pictures and lock each mark to its picture.

    SOURCES are files, folders or patterns; pictures that this command wrote there before are not
    marked again. A marked picture that would not verify counts as rejected.
    """
    lock = open_lock(**lock_settings)
    message = chosen_message(lock.bits, identifier, bits)
    found = search(sources)
    targets = _targets(found.pictures, out)
    for folder in dict.fromkeys(target.parent for target in targets.values()):
        _make_writable(folder)

    def work(source: Source) -> dict[str, Any]:
        marked = lock.mark_file(source.path, message, targets[source])
        written = {"out": str(marked.picture), "psnr": marked.psnr, "rounds": marked.rounds}
        return {**written, **marked.verdict.to_dict()}

    process(Found(list(targets), found.skipped), work, COLUMNS, as_json)


def _make_writable(folder: Path) -> None:
    """Make sure of a folder before any picture is marked for it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PictureError(
            f"the folder {folder} cannot be created ({error.strerror}): choose another with --out"
        ) from None
    if not os.access(folder, os.W_OK):
        raise PictureError(f"you may not write to the folder {folder}: choose another with --out")


def _targets(sources: list[Source], out: Path | None) -> dict[Source, Path]:
    """Where each picture goes; a.png and a.jpg of one folder do not overwrite each other.

    What an earlier run over the same folder wrote is not marked again.
    """
    if out is not None and out.suffix and not out.is_dir():
        if len(sources) > 1:
            raise PictureError(
                f"{out} is one file, but there are {len(sources)} pictures: name a folder"
            )
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

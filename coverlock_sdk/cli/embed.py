"""``coverlock embed``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from coverlock_sdk.cli.batch import process
from coverlock_sdk.cli.options import (
    chosen_message,
    json_option,
    lock_options,
    message_options,
    open_lock,
)
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.codecs import default_output
from coverlock_sdk.images.folders import Source, find_pictures


@click.command()
@click.argument("sources", nargs=-1, required=True)
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

    SOURCES are files, folders or patterns; what the same command wrote before is not marked
    again. The exit code is 0 when every marked picture
    verifies, 1 when some would be rejected, 2 when some could not be processed.
    """
    lock = open_lock(**lock_settings)
    message = chosen_message(lock.bits, identifier, bits)
    targets = _targets(find_pictures(sources), out)

    def work(source: Source) -> tuple[bool, dict[str, Any]]:
        target = targets[source]
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PictureError(f"{target.parent} cannot be created ({error.strerror})") from None
        marked = lock.mark_file(source.path, message, target)
        report = {
            "out": str(marked.picture),
            "psnr": marked.psnr,
            "rounds": marked.rounds,
            **marked.verdict.to_dict(),
        }
        return marked.verdict.accepted, report

    columns = {"out": "marked picture", "psnr": "PSNR dB", "matches": "bits read", "p_value": "p"}
    process(list(targets), work, columns, as_json)


def _targets(sources: list[Source], out: Path | None) -> dict[Source, Path]:
    """Where each picture goes; a.png and a.jpg of one folder do not overwrite each other.

    What an earlier run over the same folder wrote is no source of this one.
    """
    if out is not None and out.suffix and not out.is_dir():
        if len(sources) > 1:
            raise PictureError(f"{out} is one file, but there are {len(sources)} pictures")
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

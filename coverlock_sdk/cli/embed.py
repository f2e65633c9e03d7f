"""``coverlock embed``"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from coverlock_sdk.cli.batch import process
from coverlock_sdk.cli.chosen_messages import message_source
from coverlock_sdk.cli.exit_codes import HELP
from coverlock_sdk.cli.opening import open_lock
from coverlock_sdk.cli.options import (
    harden_option,
    json_option,
    lock_options,
    message_options,
    serials_option,
    sources_argument,
)
from coverlock_sdk.images.folders import Found, Source, search
from coverlock_sdk.images.outputs import make_writable, output_paths

COLUMNS = {
    "out": "marked picture",
    "serial": "serial",
    "psnr": "PSNR dB",
    "matches": "bits read",
    "p_value": "p",
}


@click.command(epilog=HELP)
@sources_argument
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="Output file, or folder for several pictures; beside the originals if not given.",
)
@message_options
@serials_option
@lock_options
@harden_option
@click.option("--strict", is_flag=True, help="Refuse pictures that other pictures would pass for.")
@json_option
def embed(
    sources: tuple[str, ...],
    out: Path | None,
    identifier: str | None,
    bits: str | None,
    serials: Path | None,
    strict: bool,
    as_json: bool,
    **lock_settings: Any,
) -> None:
    """Mark pictures and lock each mark to its picture.

    SOURCES are files, folders or patterns; pictures that this command wrote there before are not
    marked again. A marked picture that would not verify counts as rejected. With --serials each
    picture carries a serial of --id, such as order-4711/000001, which keeps a key safe however
    many pictures are released. A picture whose code many others share, such as a page of a common
    layout, is marked with a warning, or refused with --strict.
    """
    lock = open_lock(**lock_settings)
    message_of = message_source(lock.bits, identifier, bits, serials)
    if advice := lock.judge.advice("serial" if serials else "identifier"):
        click.echo(f"warning: {advice}", err=True)
    found = search(sources)
    targets = output_paths(found.pictures, out)
    make_writable({target.parent for target in targets.values()})

    def work(source: Source) -> dict[str, Any]:
        message = message_of(source.path)
        marked = lock.mark_file(source.path, message, targets[source], strict=strict)
        written = {"out": str(marked.picture), "psnr": marked.psnr, "rounds": marked.rounds}
        named: dict[str, Any] = {"serial": message} if serials else {}
        if marked.lookalikes is not None:
            named["lookalikes"] = asdict(marked.lookalikes)
        return {**written, **named, **marked.verdict.to_dict()}

    process(Found(list(targets), found.skipped), work, COLUMNS, as_json)

"""Options that several measurements share."""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_sdk.loading import DEFAULT_HASH

watermarks_option = click.option(
    "-w", "--watermark", "watermarks", multiple=True, required=True, help="May be repeated."
)
images_option = click.option(
    "--images",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of photos; otherwise the six of 'coverlock fetch photos'.",
)
hash_option = click.option("--hash", default=DEFAULT_HASH, show_default=True)
held_out_option = click.option(
    "--held-out", is_flag=True, help="Only photos that training leaves out."
)
out_option = click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, help="Result file (JSON)."
)

"""``coverlock train crowd``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_sdk.errors import needs
from coverlock_sdk.loading import DEFAULT_HASH, load_hash
from coverlock_sdk.named_options import parse_setting


@click.command("crowd")
@click.argument("photos", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--hash", default=DEFAULT_HASH, show_default=True, help="NAME or NAME:OPTION=VALUE.")
@click.option(
    "--pictures",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder for the drawn pictures; what is there is not drawn again.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The crowd: NAME-crowd.safetensors ships with a hash, crowd.safetensors is in its folder.",
)
def train_crowd(photos: Path, hash: str, pictures: Path, out: Path) -> None:
    """Make the crowd by which embedding tells how distinctive a picture is to a hash.

    It holds codes of 1,024 of the PHOTOS and of 3,072 drawn pictures of every other kind. Photos
    that training holds out are left out.
    """
    with needs("drawing pictures", None, "bench"):
        from coverlock_sdk.training.crowd import make_crowd
        from coverlock_sdk.training.photos import HELD_OUT, split
    name, options = parse_setting(hash)
    training, _ = split(photos, HELD_OUT)
    crowd = make_crowd(load_hash(name, **options), training, pictures)
    crowd.save(out)
    click.echo(f"wrote {out}: {len(crowd):,} codes of {len(crowd.kinds)} kinds")

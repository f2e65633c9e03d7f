"""``coverlock c2pa sign``"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from coverlock_sdk.cli.batch import process
from coverlock_sdk.cli.chosen_messages import serial_source
from coverlock_sdk.cli.exit_codes import HELP
from coverlock_sdk.cli.opening import open_lock
from coverlock_sdk.cli.options import (
    json_option,
    lock_options,
    repository_option,
    sources_argument,
)
from coverlock_sdk.images.folders import Found, Source, search
from coverlock_sdk.images.outputs import make_writable, output_paths
from coverlock_sdk.provenance.credentials import Credentials
from coverlock_sdk.provenance.repository import ManifestRepository
from coverlock_sdk.provenance.signing import PictureSigner

COLUMNS = {"path": "signed picture", "serial": "serial", "manifest": "manifest", "psnr": "PSNR dB"}


@click.command(epilog=HELP)
@sources_argument
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Output file, or folder for several pictures.",
)
@click.option("--id", "identifier", help="Gives each picture a new serial of this identifier.")
@click.option("--serial", help="The serial of the only picture, if you number pictures yourself.")
@click.option(
    "--cert",
    type=click.Path(path_type=Path),
    required=True,
    help="Certificates in PEM format, the signer's first, then each issuer.",
)
@click.option(
    "--key",
    "private_key",
    type=click.Path(path_type=Path),
    required=True,
    help="The signer's private key in PEM format.",
)
@repository_option
@lock_options
@json_option
def sign(
    sources: tuple[str, ...],
    out: Path,
    identifier: str | None,
    serial: str | None,
    cert: Path,
    private_key: Path,
    repository: Path,
    as_json: bool,
    **lock_settings: Any,
) -> None:
    """Mark pictures, sign manifests that say so, and keep the manifests in a repository.

    Each picture carries a locked serial of its own. Its manifest holds two soft bindings, the
    lock's and a fingerprint, by which 'coverlock c2pa resolve' finds it when it was stripped.
    """
    credentials = Credentials.load(cert, private_key)
    found = search(sources)
    kept = ManifestRepository(repository, create=True)
    serial_of = serial_source(kept.serials, identifier, serial, len(found.pictures))
    signer = PictureSigner(open_lock(**lock_settings), kept, credentials)
    targets = output_paths(found.pictures, out)
    make_writable({target.parent for target in targets.values()})

    def work(source: Source) -> dict[str, Any]:
        signed = signer.sign(source.path, targets[source], serial_of(source.path))
        return {"accepted": True, **asdict(signed)}

    process(Found(list(targets), found.skipped), work, COLUMNS, as_json)

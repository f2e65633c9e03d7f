"""``coverlock c2pa ...``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_sdk.cli.answers import answer
from coverlock_sdk.cli.c2pa_entries import entries
from coverlock_sdk.cli.c2pa_resolve import resolve
from coverlock_sdk.cli.c2pa_sign import sign
from coverlock_sdk.cli.options import json_option, repository_option
from coverlock_sdk.provenance.repository import ManifestRepository
from coverlock_sdk.provenance.trial_certificates import make_trial_certificates


@click.group()
def c2pa() -> None:
    """Sign pictures with content credentials that are found again after they were stripped."""


for command in (sign, resolve, entries):
    c2pa.add_command(command)


@c2pa.command()
@click.argument("other", type=click.Path(exists=True, file_okay=False, path_type=Path))
@repository_option
@json_option
def merge(other: Path, repository: Path, as_json: bool) -> None:
    """Add the manifests of OTHER, a repository, to this one, which is made if it is not there.

    Two manifests that claim one serial end it: what was added before stays.
    """
    source = ManifestRepository(other)
    added = ManifestRepository(repository, create=True).merge(source)
    answer({"added": added}, as_json, f"{added} manifests added to {repository}")


@c2pa.command("trial-certificates")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@json_option
def trial_certificates(folder: Path, as_json: bool) -> None:
    """Make certificates under FOLDER to try signing with; nobody trusts them unless told to."""
    files = make_trial_certificates(folder)
    answer(
        {"cert": str(files.chain), "key": str(files.key), "trust": str(files.root)},
        as_json,
        f"to sign: --cert {files.chain} --key {files.key}",
        f"to resolve: --trust {files.root}",
    )

"""What ``coverlock serve --resolution`` stands for."""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_sdk.provenance.repository import ManifestRepository
from coverlock_sdk.provenance.resolving import Resolver
from coverlock_sdk.verifier.verifier import Verifier


def open_resolver(folder: Path, verifier: Verifier) -> Resolver:
    """Finds the manifests of a repository, of which some may need another bundle."""
    repository = ManifestRepository(folder)
    own = verifier.watermark_name, verifier.hash_name
    others = {
        f"{look.watermark} with {look.hash}"
        for look in repository.looks(after=0)
        if (look.watermark, look.hash) != own
    }
    if others:
        click.echo(
            f"warning: manifests of pictures marked by {', '.join(sorted(others))} are not found "
            "by this bundle",
            err=True,
        )
    return Resolver(repository, [verifier])

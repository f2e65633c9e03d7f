"""What ``coverlock serve --resolution`` stands for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from coverlock_sdk.provenance.repository import ManifestRepository
from coverlock_sdk.provenance.resolving import Resolver
from coverlock_sdk.verifier.verifier import Verifier


def open_resolver(folder: Path, verifiers: Sequence[Verifier]) -> Resolver:
    """Finds the manifests of a repository, of which some may need other bundles."""
    repository = ManifestRepository(folder)
    own = {(verifier.watermark_name, verifier.hash_name) for verifier in verifiers}
    others = {
        f"{look.watermark} with {look.hash}"
        for look in repository.looks(after=0)
        if (look.watermark, look.hash) not in own
    }
    if others:
        click.echo(
            f"warning: manifests of pictures marked by {', '.join(sorted(others))} are not found "
            f"by {'this bundle' if len(verifiers) == 1 else 'these bundles'}",
            err=True,
        )
    return Resolver(repository, verifiers)

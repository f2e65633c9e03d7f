"""Content credentials (C2PA) that survive stripping, and that transplanted marks do not lead to.

A picture is marked with a locked serial, and its manifest has two soft bindings: the lock's and a
fingerprint. A picture that lost its manifest leads back to it only if both match, the repository
remembers that very picture, and you trust the signer.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from coverlock_sdk import CoverLockError, hookimpl
from coverlock_sdk.hookspecs import Register

if TYPE_CHECKING:
    import click

    from coverlock_plugins.service.deployment import Routes


class ProvenanceError(CoverLockError):
    """A manifest, a certificate or a repository of manifests cannot be used."""


@hookimpl
def register_commands(cli: click.Group) -> None:
    """``coverlock c2pa ...``"""
    from coverlock_plugins.content_credentials.commands import c2pa

    cli.add_command(c2pa)


@hookimpl
def register_routes(register: Register) -> None:
    """``coverlock serve --routes c2pa:repository=FOLDER,trust=FILE``"""
    register(_resolution, "c2pa")


def _resolution(repository: str | None = None, trust: str | None = None) -> Routes:
    from coverlock_plugins.content_credentials.routes import ResolutionRoutes

    if repository is None or trust is None:
        raise ProvenanceError(
            "name the repository, and the certificates of trusted signers: "
            "--routes c2pa:repository=FOLDER,trust=FILE"
        )
    return ResolutionRoutes(Path(repository), Path(trust)).add_to

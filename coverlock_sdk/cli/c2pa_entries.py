"""``coverlock c2pa entries``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_sdk.cli.answers import print_json
from coverlock_sdk.errors import ProvenanceError
from coverlock_sdk.loading import DEFAULT_HASH
from coverlock_sdk.provenance.list_entries import audit_credential, list_entries


@click.command()
@click.option("--contact", required=True, help="E-mail address of whoever submits them.")
@click.option(
    "--first", default=1, show_default=True, type=click.IntRange(0), help="Next free number."
)
@click.option(
    "--api", "apis", multiple=True, help="Address of 'coverlock serve --resolution'; repeatable."
)
@click.option(
    "--audit",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The JSON that 'coverlock audit' wrote, as a credential.",
)
@click.option("--audit-url", help="Where that file can be downloaded.")
def entries(
    contact: str, first: int, apis: tuple[str, ...], audit: Path | None, audit_url: str | None
) -> None:
    """Print our entries for C2PA's list of soft-binding algorithms, as JSON.

    One is for the lock, and one for the fingerprint by the default hash.
    """
    if (audit is None) != (audit_url is None):
        raise ProvenanceError("--audit and --audit-url go together")
    benchmark = audit_credential(audit, audit_url) if audit and audit_url else None
    print_json(list_entries([DEFAULT_HASH], contact, first, apis, benchmark))

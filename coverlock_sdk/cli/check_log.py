"""``coverlock check-log``"""

from __future__ import annotations

import json
from pathlib import Path

import click

from coverlock_sdk.cli.options import json_option
from coverlock_sdk.verifier.audit_log import FIRST, check_chain


@click.command("check-log")
@click.argument("log", type=click.Path(path_type=Path))
@click.option(
    "--expect", "noted", metavar="DIGEST", default=FIRST, help="Noted at an earlier check."
)
@json_option
def check_log(log: Path, noted: str, as_json: bool) -> None:
    """Check that no line of an audit LOG was changed, removed or added since it was written.

    Note the digest of the last line elsewhere and --expect it later: by itself a log does not show
    that its end was changed or cut off, or that all of it was written anew.
    """
    lines, digest = check_chain(log, noted)
    if as_json:
        click.echo(json.dumps({"lines": lines, "last": digest}))
    else:
        click.echo(f"{log}: {lines} lines, chain whole, last line {digest}")

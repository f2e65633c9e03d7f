"""``coverlock token``"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click

from coverlock_sdk.serving.access import SCOPES, Scope, add_token


@click.command()
@click.argument("name")
@click.option("--file", type=click.Path(path_type=Path), required=True, help="Token file.")
@click.option(
    "--may",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    default=("verify",),
    show_default=True,
    help="Repeatable. 'detail' shows p-values, which help an attacker.",
)
@click.option("--rate", default=10.0, show_default=True, help="Requests a second.")
@click.option("--burst", default=20, show_default=True, help="Requests at once.")
def token(name: str, file: Path, scopes: tuple[str, ...], rate: float, burst: int) -> None:
    """Make a token with which NAME may ask a service, and print it.

    The file keeps only its digest, so note the token now. It replaces the token that NAME had.
    """
    click.echo(add_token(file, name, cast("tuple[Scope, ...]", scopes), rate, burst))

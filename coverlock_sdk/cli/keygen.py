"""``coverlock keygen``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_sdk.cli.answers import answer
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.locking.keys import KEY_FILE_VARIABLE, generate_key


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--id", "identifier", help="Name of the key; the date and a random suffix if absent.")
@click.option(
    "--rotate",
    is_flag=True,
    help="Add a new key to an existing file: it marks from now on, the others still verify.",
)
@json_option
def keygen(path: Path, identifier: str | None, rotate: bool, as_json: bool) -> None:
    """Make a secret key in the file PATH, readable by you alone."""
    key = generate_key(path, identifier, rotate)
    answer(
        {"file": str(path), "id": key.id, "fingerprint": key.fingerprint},
        as_json,
        f"key '{key.id}' (fingerprint {key.fingerprint}) is in {path}",
        f"use it with --key-file {path}, or set {KEY_FILE_VARIABLE}={path}",
        "keep a copy in a safe place: without it, pictures marked with it cannot be verified",
    )

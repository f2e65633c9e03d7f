"""``coverlock sign``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.bundles.signing import generate_signing_key, sign_bundle
from coverlock_sdk.cli.answers import answer
from coverlock_sdk.cli.options import json_option


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--key",
    "private_key",
    type=click.Path(path_type=Path),
    required=True,
    help="Private Ed25519 key in PEM format.",
)
@click.option("--new-key", is_flag=True, help="Make that key first, with its public key beside it.")
@json_option
def sign(bundle: Path, private_key: Path, new_key: bool, as_json: bool) -> None:
    """Sign a BUNDLE, so that a verifier can tell who exported it and that nobody changed it.

    Give the public key to those who verify: ``Verifier.open(bundle, trust="release.pub")``.
    """
    Bundle.open(bundle)  # before a key is made that would sign nothing
    public_key = generate_signing_key(private_key) if new_key else None
    signature = sign_bundle(bundle, private_key)
    made, told = {}, []
    if public_key:
        made = {"public_key": str(public_key)}
        told = [
            f"private key: {private_key} (keep it where bundles are made)",
            f"public key: {public_key} (give it to those who verify)",
        ]
    answer({"signature": str(signature), **made}, as_json, *told, f"signature: {signature}")

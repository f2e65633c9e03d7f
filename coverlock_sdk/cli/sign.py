"""``coverlock sign``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.bundles.signing import (
    FORMATS,
    Format,
    generate_signing_key,
    is_encrypted,
    sign_bundle,
)
from coverlock_sdk.cli.answers import answer
from coverlock_sdk.cli.options import json_option, refuse_idle
from coverlock_sdk.cli.passphrases import PASSPHRASE_VARIABLE, passphrase_for


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--key",
    "private_key",
    type=click.Path(path_type=Path),
    required=True,
    help="Private key in PEM format.",
)
@click.option("--new-key", is_flag=True, help="Make that key first, with its public key beside it.")
@click.option("--encrypt", is_flag=True, help="Protect the new key with a passphrase.")
@click.option(
    "--passphrase-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"Passphrase of the key; otherwise {PASSPHRASE_VARIABLE} holds it, or you are asked.",
)
@click.option(
    "--format",
    "signature_format",
    type=click.Choice(FORMATS),
    default="coverlock",
    show_default=True,
    help="Ed25519 over the manifest, or OpenSSF's model-signing with a P-256 key.",
)
@json_option
def sign(
    bundle: Path,
    private_key: Path,
    new_key: bool,
    encrypt: bool,
    passphrase_file: Path | None,
    signature_format: Format,
    as_json: bool,
) -> None:
    """Sign a BUNDLE, so that a verifier can tell who exported it and that nobody changed it.

    Give the public key to those who verify: ``Verifier.open(bundle, trust="release.pub")``.
    """
    if not new_key:
        refuse_idle("without --new-key", "encrypt")
    Bundle.open(bundle)  # before a key is made that would sign nothing
    passphrase = None
    if encrypt or (not new_key and is_encrypted(private_key)):
        passphrase = passphrase_for(private_key, passphrase_file, new_key)
    else:
        refuse_idle("for a key that is not encrypted", "passphrase_file")
    public_key = None
    if new_key:
        public_key = generate_signing_key(private_key, passphrase, signature_format)
    signature = sign_bundle(bundle, private_key, passphrase, signature_format)
    made, told = {}, []
    if public_key:
        made = {"public_key": str(public_key)}
        told = [
            f"private key: {private_key} (keep it where bundles are made)",
            f"public key: {public_key} (give it to those who verify)",
        ]
    answer({"signature": str(signature), **made}, as_json, *told, f"signature: {signature}")

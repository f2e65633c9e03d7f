"""Keys and trust: ``coverlock keygen``, ``sign`` and ``check-log``."""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.bundles.signing import generate_signing_key
from coverlock_sdk.cli.options import json_option, path_option
from coverlock_sdk.cli.output import answer
from coverlock_sdk.locking.keys import KEY_FILE_VARIABLE, generate_key
from coverlock_sdk.verifier.audit_log import FIRST, check_chain

_path = click.Path(path_type=Path)


@click.command()
@click.argument("path", type=_path)
@click.option(
    "--id", "identifier", help="Name of the key.", show_default="the date and a random suffix"
)
@click.option(
    "--rotate",
    is_flag=True,
    help="Add a new key to an existing file. It marks new pictures; older keys verify old ones.",
)
@json_option
def keygen(path: Path, identifier: str | None, rotate: bool, as_json: bool) -> None:
    """Create a secret key file at PATH, readable only by you."""
    key = generate_key(path, identifier, rotate)
    answer(
        {"file": str(path), "id": key.id, "fingerprint": key.fingerprint},
        as_json,
        f"key '{key.id}' (fingerprint {key.fingerprint}) is in {path}",
        f"use it with --key-file {path}, or set {KEY_FILE_VARIABLE}={path}",
        "keep a copy in a safe place: without it, pictures marked with it cannot be verified",
    )


@click.command()
@click.argument("bundle", type=_path)
@path_option("--key", "private_key", required=True, help="Private key in PEM format.")
@click.option("--new-key", is_flag=True, help="Make that key first, and its public key beside it.")
@json_option
def sign(bundle: Path, private_key: Path, new_key: bool, as_json: bool) -> None:
    """Sign a BUNDLE, so that verifiers know who exported it.

    Give verifiers the public key; they pass it as --trust.
    """
    opened = Bundle.open(bundle)  # before making a key that would sign nothing
    made, told = {}, []
    if new_key:
        public_key = generate_signing_key(private_key)
        made = {"public_key": str(public_key)}
        told = [
            f"private key: {private_key} (keep it where bundles are made)",
            f"public key: {public_key} (give it to everyone who verifies)",
        ]
    signature = opened.sign(private_key)
    answer({"signature": str(signature), **made}, as_json, *told, f"signature: {signature}")


@click.command("check-log")
@click.argument("log", type=_path)
@click.option(
    "--expect",
    "noted",
    metavar="DIGEST",
    default=FIRST,
    show_default=False,
    help="Digest of a line, as an earlier check printed it.",
)
@json_option
def check_log(log: Path, noted: str, as_json: bool) -> None:
    """Check that nobody tampered with an audit LOG.

    A line that was changed, removed or added breaks the chain of digests. Store the printed digest
    of the last line somewhere else, and pass it to --expect at the next check: the log alone does
    not show whether its last line was changed, its end was cut off, or all of it was rewritten.
    """
    lines, digest = check_chain(log, noted)
    intact = f"{log} is intact: {lines} lines, and the digest of the last one is {digest}"
    answer({"lines": lines, "last": digest}, as_json, intact)

"""``coverlock trust``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_sdk.bundles.trust import Trust, TrustedKey
from coverlock_sdk.cli.answers import answer_table
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.errors import KeyringError

_key_files = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--add", multiple=True, type=_key_files, help="Public key to trust. Repeatable.")
@click.option(
    "--revoke", multiple=True, type=_key_files, help="Public key to refuse from now on. Repeatable."
)
@json_option
def trust(file: Path, add: tuple[Path, ...], revoke: tuple[Path, ...], as_json: bool) -> None:
    """Show the public keys of the trust FILE, add some, or revoke some.

    Verifiers take the file as --trust. To rotate keys, add the new one everywhere, sign with it,
    and revoke the old one. A revoked key stays listed, and is refused even if it is also named.
    """
    kept = Trust.load(file) if file.exists() or not add + revoke else Trust(())
    changed = kept
    for path in add:
        changed = changed.adding(_named(path))
    for path in revoke:
        changed = changed.revoking(_named(path))
    if changed != kept:
        changed.save(file)
    entries = [
        {"name": key.name, "fingerprint": key.fingerprint, "revoked": key.revoked}
        for key in changed.keys
    ]
    rows = [
        (key.name, key.fingerprint, f"revoked on {key.revoked}" if key.revoked else "trusted")
        for key in changed.keys
    ]
    answer_table({"keys": entries}, as_json, ("key", "fingerprint", ""), rows)


def _named(path: Path) -> TrustedKey:
    keys = Trust.load(path).keys
    if len(keys) != 1:
        raise KeyringError(f"{path} is not the file of one public key")
    return TrustedKey(path.stem, keys[0].pem)

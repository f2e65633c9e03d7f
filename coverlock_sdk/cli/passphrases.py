"""Where the passphrase of a signing key comes from: a file, the environment, or a person."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from coverlock_sdk.documents import DocumentError, read_file
from coverlock_sdk.errors import KeyringError

PASSPHRASE_VARIABLE = "COVERLOCK_SIGNING_PASSPHRASE"
_LONGEST = 4096


def passphrase_for(key: Path, file: Path | None, new: bool) -> bytes:
    """The passphrase of ``key``; a new one is asked for twice."""
    if file is not None:
        try:
            return read_file(file, _LONGEST).rstrip(b"\r\n")
        except DocumentError as error:
            raise KeyringError(str(error)) from None
    if given := os.environ.get(PASSPHRASE_VARIABLE):
        return given.encode(errors="surrogateescape")
    if not sys.stdin.isatty():
        raise KeyringError(
            f"{key} needs a passphrase: give --passphrase-file, or set {PASSPHRASE_VARIABLE}"
        )
    asked: str = click.prompt(
        f"Passphrase of {key}", hide_input=True, confirmation_prompt=new, err=True
    )
    return asked.encode()

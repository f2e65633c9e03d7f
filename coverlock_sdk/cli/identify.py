"""``coverlock identify``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from coverlock_sdk.cli.batch import process
from coverlock_sdk.cli.exit_codes import HELP
from coverlock_sdk.cli.opening import open_verifier
from coverlock_sdk.cli.options import json_option, sources_argument, verifier_options
from coverlock_sdk.errors import MessageError
from coverlock_sdk.images.folders import search

COLUMNS = {"label": "identifier", "matches": "matches", "bits": "of", "p_value": "p"}


@click.command(epilog=HELP)
@sources_argument
@click.option(
    "--ids",
    required=True,
    type=click.Path(path_type=Path),
    help="File of registered identifiers, one on each line.",
)
@verifier_options
@json_option
def identify(sources: tuple[str, ...], ids: Path, as_json: bool, **opening: Any) -> None:
    """Find which of many registered identifiers each picture carries, if any.

    SOURCES are files, folders or patterns. A picture without any of them counts as rejected.
    """
    with open_verifier(**opening) as verifier:
        book = verifier.judge.checked_book(_identifiers(ids))
        process(
            search(sources),
            lambda source: verifier.identify(source.path, book).to_dict(),
            COLUMNS,
            as_json,
        )


def _identifiers(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise MessageError(f"{path} cannot be read ({error.strerror or error})") from None
    except UnicodeDecodeError:
        raise MessageError(
            f"{path} is not a text file: write one identifier on each line"
        ) from None
    identifiers = [line.strip() for line in lines if line.strip()]
    if not identifiers:
        raise MessageError(f"{path} has no identifiers: write one on each line")
    return identifiers

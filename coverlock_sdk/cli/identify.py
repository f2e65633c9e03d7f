"""``coverlock identify``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from coverlock_sdk.cli.batch import process
from coverlock_sdk.cli.exit_codes import HELP
from coverlock_sdk.cli.opening import open_verifier
from coverlock_sdk.cli.options import json_option, sources_argument, verifier_options
from coverlock_sdk.images.folders import search
from coverlock_sdk.locking.identification import read_identifiers

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
        book = verifier.judge.checked_book(read_identifiers(ids))
        process(
            search(sources),
            lambda source: verifier.identify(source.path, book).to_dict(),
            COLUMNS,
            as_json,
        )

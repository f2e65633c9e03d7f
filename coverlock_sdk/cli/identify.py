"""``coverlock identify``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from coverlock_sdk.cli.batch import VERDICT_COLUMNS, Row, each, report
from coverlock_sdk.cli.chosen_messages import remembered_names
from coverlock_sdk.cli.exit_codes import HELP
from coverlock_sdk.cli.opening import open_verifier
from coverlock_sdk.cli.options import (
    audit_option,
    json_option,
    sources_argument,
    verifier_options,
)
from coverlock_sdk.cli.recording import evidence, recorded
from coverlock_sdk.errors import MessageError
from coverlock_sdk.images.folders import Source, search
from coverlock_sdk.locking.identification import read_identifiers

COLUMNS = {"label": "identifier", **VERDICT_COLUMNS}


@click.command(epilog=HELP)
@sources_argument
@click.option(
    "--ids",
    type=click.Path(path_type=Path),
    help="File of registered identifiers, one on each line.",
)
@verifier_options
@audit_option
@json_option
def identify(
    sources: tuple[str, ...],
    ids: Path | None,
    audit: Path | None,
    as_json: bool,
    **opening: Any,
) -> None:
    """Find which of many registered identifiers each picture carries, if any.

    SOURCES are files, folders or patterns. Identifiers come from --ids, or else are those that
    --registry remembers. A picture without any of them counts as rejected.
    """
    if ids is None and opening["registry"] is None:
        raise MessageError("name a file of identifiers with --ids, or a registry with --registry")
    names = read_identifiers(ids) if ids else None
    with open_verifier(**opening) as verifier:
        registry = verifier.lock.registry
        if names is None:
            assert registry is not None
            names = remembered_names(registry)
        book = verifier.lock.checked_book(names)

        def work(source: Source) -> Row:
            picture, about = evidence(source.path, audit)
            return {**verifier.identify(picture, book).to_dict(), **about}

        found = search(sources)
        rows = recorded(each(found, work), audit, None, verifier)
        report(found, rows, COLUMNS, as_json)

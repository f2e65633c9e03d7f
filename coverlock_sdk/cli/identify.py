"""``coverlock identify``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from coverlock_sdk.cli.batch import process
from coverlock_sdk.cli.options import json_option, lock_options, open_lock
from coverlock_sdk.errors import MessageError
from coverlock_sdk.images.folders import Source, find_pictures


@click.command()
@click.argument("sources", nargs=-1, required=True)
@click.option(
    "--ids",
    required=True,
    type=click.Path(path_type=Path),
    help="File of registered identifiers, one a line.",
)
@lock_options
@json_option
def identify(sources: tuple[str, ...], ids: Path, as_json: bool, **lock_settings: Any) -> None:
    """Find which of many registered identifiers each picture carries, if any.

    The exit code is 0 when every picture is identified, 1 when some are not, 2 when some could
    not be processed.
    """
    lock = open_lock(**lock_settings)
    book = lock.book(_identifiers(ids))

    def work(source: Source) -> tuple[bool, dict[str, Any]]:
        answer = lock.identify(source.path, book)
        return answer.verdict.accepted, answer.to_dict()

    columns = {"label": "identifier", "matches": "matches", "bits": "of", "p_value": "p"}
    process(find_pictures(sources), work, columns, as_json)


def _identifiers(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise MessageError(f"the list of identifiers {path} cannot be read ({error})") from None
    return [line.strip() for line in lines if line.strip()]

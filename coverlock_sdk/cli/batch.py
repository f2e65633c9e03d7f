"""Running a command over many pictures: progress, one row each, and an exit code for scripts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NoReturn

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from coverlock_sdk.cli.answers import print_json
from coverlock_sdk.cli.exit_codes import ACCEPTED, ERROR, REJECTED
from coverlock_sdk.errors import (
    CoverLockError,
    KeyringError,
    MessageError,
    MissingModelError,
    RegistryError,
    UnknownNameError,
)
from coverlock_sdk.hashing.frames import Frame
from coverlock_sdk.images.folders import Found, Source
from coverlock_sdk.progress import progress

ABOUT_SETTINGS = (
    KeyringError,
    MessageError,
    MissingModelError,
    RegistryError,
    UnknownNameError,
)
"""Errors that no picture is to blame for: they end the command."""
COLOURS = {"accepted": "green", "rejected": "red", "error": "yellow"}
UNBROKEN = 10_000
"""Columns of a table that goes to a file or a pipe, where nothing calls for breaking names."""

VERDICT_COLUMNS = {
    "matches": "matches",
    "bits": "of",
    "p_value": "p",
    "key_id": "key",
    "frame": "shows",
    "reason": "because",
}

Row = dict[str, Any]


def process(
    found: Found, work: Callable[[Source], Row], columns: dict[str, str], as_json: bool
) -> NoReturn:
    """Do ``work`` on every picture, report on them, and exit with a code for scripts."""
    report(found, each(found, work), columns, as_json)


def each(found: Found, work: Callable[[Source], Row]) -> Iterator[Row]:
    """Do ``work`` on every picture.

    ``work`` returns what to report, ``accepted`` among it. A picture that fails is reported and
    counted, and never stops the others.
    """
    return (row_of(str(source.path), partial(work, source)) for source in found.pictures)


def report(found: Found, rows: Iterable[Row], columns: dict[str, str], as_json: bool) -> NoReturn:
    """Collect a row for each picture, show a table or JSON, and exit with a code for scripts.

    ``columns`` maps report keys to headings.
    """
    total = len(found.pictures)
    collected = list(progress(rows, total=total, quiet=total == 1))
    counts = dict.fromkeys(COLOURS, 0)
    for row in collected:
        counts[row["status"]] += 1
    if as_json:
        print_json({"results": collected, "counts": counts, "skipped": found.skipped})
    else:
        _show(collected, counts, columns, found.skipped)
    finish(counts)


def finish(counts: dict[str, int]) -> NoReturn:
    """Exit with the code for pictures of which so many had each status."""
    code = ERROR if counts["error"] else REJECTED if counts["rejected"] else ACCEPTED
    raise click.exceptions.Exit(code)


def counted(counts: dict[str, int]) -> str:
    """How many pictures had each status, as a person reads it."""
    nouns = {"error": "error" if counts["error"] == 1 else "errors"}
    return ", ".join(f"{n} {nouns.get(status, status)}" for status, n in counts.items() if n)


def row_of(file: str, work: Callable[[], Row]) -> Row:
    """What is reported of one picture: what ``work`` says of it, or why it could not be done."""
    row: Row = {"file": file}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            details = work()
            row |= {"status": "accepted" if details["accepted"] else "rejected", **details}
        except ABOUT_SETTINGS:
            raise
        except CoverLockError as error:
            row |= {"status": "error", "error": str(error)}
    return {**row, "warnings": [str(warning.message) for warning in caught]}


def _show(rows: list[Row], counts: dict[str, int], columns: dict[str, str], skipped: int) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = UNBROKEN
    told = [key for key in columns if any(_cell(row, key) for row in rows)]
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for heading in ("file", "status", *(columns[key] for key in told)):
        table.add_column(heading, overflow="fold")
    for row in rows:
        status = f"[{COLOURS[row['status']]}]{row['status']}[/]"
        table.add_row(escape(row["file"]), status, *(_cell(row, key) for key in told))
    if any(row["status"] != "error" for row in rows):
        console.print(table)
    for row in rows:
        problems = [("error", row["error"])] if row["status"] == "error" else []
        for kind, text in [*problems, *(("warning", text) for text in row["warnings"])]:
            named = text if row["file"] in text else f"{row['file']}: {text}"
            console.print(f"[yellow]{kind}:[/] {escape(named)}", highlight=False, soft_wrap=True)
    if len(rows) > 1:
        console.print(counted(counts), highlight=False)
    if skipped == 1:
        console.print("1 other file was skipped: it is not a picture", highlight=False)
    elif skipped:
        console.print(
            f"{skipped:,} other files were skipped: they are not pictures", highlight=False
        )


def _cell(row: Row, key: str) -> str:
    """What the table says of one picture; a frame is worth telling where it is not the whole."""
    value = row.get(key)
    if value is None:
        return ""
    if key == "frame":
        frame = Frame(**value)
        return "" if frame.is_whole else str(frame)
    return f"{value:.3g}" if isinstance(value, float) else escape(str(value))

"""What commands print: lines, tables or one JSON document, and an exit code for scripts."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from coverlock_sdk.cli import ACCEPTED, ERROR, REJECTED
from coverlock_sdk.errors import (
    CoverLockError,
    KeyringError,
    MessageError,
    MissingModelError,
    RegistryError,
    UnknownNameError,
)
from coverlock_sdk.frames import Frame
from coverlock_sdk.images.folders import FoundPictures, Source
from coverlock_sdk.locking.verdict import CHANCE
from coverlock_sdk.progress import progress
from coverlock_sdk.verifier.audit_log import AuditLog

ABOUT_SETTINGS = (KeyringError, MessageError, MissingModelError, RegistryError, UnknownNameError)
"""Errors that no picture is to blame for: they end the command."""
COLOURS = {"accepted": "green", "rejected": "red", "error": "yellow"}
MOST_ROWS = 40
"""Longer tables show only the pictures that failed, and no more of them than this."""
UNBROKEN = 10_000
"""Table width for files and pipes, where file names need no line breaks."""

VERDICT_COLUMNS = {"p_value": "evidence", "key_id": "key", "frame": "shows", "reason": "because"}

Row = dict[str, Any]


def answer(document: Any, as_json: bool, *lines: str) -> None:
    """Print ``document`` as JSON, or else the same as ``lines`` of text."""
    if as_json:
        print_json(document)
    else:
        for line in lines:
            click.echo(line)


def answer_table(
    document: Any, as_json: bool, headings: Sequence[str], rows: Iterable[Sequence[str]]
) -> None:
    """Print ``document`` as JSON, or else a table."""
    if as_json:
        print_json(document)
    else:
        _print_table(_console(), headings, rows)


def print_json(document: Any) -> None:
    """Print one strict JSON document: infinities and NaN become null."""
    click.echo(json.dumps(_strict(document), indent=2, default=str, allow_nan=False))


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def process(
    found: FoundPictures, work: Callable[[Source], Row], columns: dict[str, str], as_json: bool
) -> NoReturn:
    """Do ``work`` on every picture, report the results, and exit with a code for scripts."""
    report(found, each(found, work), columns, as_json)


def each(found: FoundPictures, work: Callable[[Source], Row]) -> Iterator[Row]:
    """Do ``work`` on every picture; one that fails is reported and does not stop the others.

    ``work`` returns what to report, including ``accepted``.
    """
    return (row_of(str(source.path), partial(work, source)) for source in found.pictures)


def row_of(file: str, work: Callable[[], Row]) -> Row:
    """The report on one picture: what ``work`` returns, or why it failed."""
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


def report(
    found: FoundPictures,
    rows: Iterable[Row],
    columns: dict[str, str],
    as_json: bool,
    marking: bool = False,
) -> NoReturn:
    """Collect a row for each picture, show a table or JSON, and exit with a code for scripts.

    ``columns`` maps report keys to headings.
    """
    total, collected = len(found.pictures), []
    try:
        for row in progress(rows, total=total, quiet=total == 1):
            collected.append(row)
    except KeyboardInterrupt:
        resume = "; run the same command again to go on" if marking else ""
        far = f"after {len(collected)} of {total} pictures"
        raise KeyboardInterrupt(far + resume) from None
    counts = dict.fromkeys(COLOURS, 0)
    for row in collected:
        counts[row["status"]] += 1
    if as_json:
        print_json({"results": collected, "counts": counts, "skipped": found.skipped})
    else:
        _show(collected, counts, columns, found.skipped, marking)
    finish(counts)


def finish(counts: dict[str, int]) -> NoReturn:
    """Exit with the code that sums up how many pictures had each status."""
    code = ERROR if counts["error"] else REJECTED if counts["rejected"] else ACCEPTED
    raise click.exceptions.Exit(code)


def counted(counts: dict[str, int], accepted: str = "accepted") -> str:
    """How many pictures had each status, in words."""
    words = {"accepted": accepted, "error": "error" if counts["error"] == 1 else "errors"}
    return ", ".join(f"{n:,} {words.get(status, status)}" for status, n in counts.items() if n)


def logged(
    rows: Iterable[Row],
    audit: Path | None,
    message: Any,
    watermark: str,
    hash: str | None,
    version: str | None,
) -> Iterator[Row]:
    """The same rows; each is written to the audit log, if there is one, before it is reported.

    ``version`` is that of the bundle, if there is one.
    """
    log = AuditLog(audit, version) if audit else None
    for row in rows:
        if log:
            log.row_reached(row, message, watermark, hash)
        yield row


def _show(
    rows: list[Row], counts: dict[str, int], columns: dict[str, str], skipped: int, marking: bool
) -> None:
    console, accepted = _console(), "marked" if marking else "accepted"
    words, shown = {"accepted": accepted}, rows
    if len(rows) > MOST_ROWS:
        shown = [row for row in rows if row["status"] != "accepted" or row["warnings"]]
    left_out, shown = len(shown[MOST_ROWS:]), shown[:MOST_ROWS]
    told = [key for key in columns if any(_cell(row, key) for row in shown)]
    lines = [
        (
            escape(_short(row["file"])),
            f"[{COLOURS[row['status']]}]{words.get(row['status'], row['status'])}[/]",
            *(_cell(row, key) for key in told),
        )
        for row in shown
        if row["status"] != "error"
    ]
    if lines:
        _print_table(console, ("file", "status", *(columns[key] for key in told)), lines)
    for row in shown:
        problems = [("error", row["error"])] if row["status"] == "error" else []
        for kind, text in [*problems, *(("warning", text) for text in row["warnings"])]:
            named = text if row["file"] in text else f"{row['file']}: {text}"
            line = escape(named.replace(f"{Path.cwd()}{os.sep}", ""))
            console.print(f"[yellow]{kind}:[/] {line}", highlight=False, soft_wrap=True)
    if left_out:
        console.print(f"... and {left_out:,} more; --json lists them all", highlight=False)
    if len(rows) > 1:
        console.print(counted(counts, accepted), highlight=False)
    if not marking and counts["rejected"] and counts["rejected"] == len(rows):
        causes = "the key, the identifier and the watermark"
        if click.get_current_context().params.get("registry") is None:
            causes += ", and name the --registry if they were marked with one"
        console.print(f"Nothing was accepted: check {causes}.", soft_wrap=True)
    if skipped:
        console.print(f"not pictures: {skipped:,} skipped", highlight=False)


def _console() -> Console:
    console = Console()
    if not console.is_terminal:
        console.width = UNBROKEN
    return console


def _print_table(console: Console, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table whose first column, the names, is the last to be broken over lines."""
    table, rows = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0)), list(rows)
    longest = max((len(row[0]) for row in rows), default=0)
    for place, heading in enumerate(headings):
        wide = min(longest, console.width * 3 // 5) if place == 0 else None
        table.add_column(heading, overflow="fold", min_width=wide)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _short(file: str) -> str:
    """The name of a file as seen from the current folder, where it is inside it."""
    return os.path.relpath(file) if Path(file).is_relative_to(Path.cwd()) else file


def _cell(row: Row, key: str) -> str:
    """One cell of the table; ``frame`` is shown only for a part of the picture."""
    value = row.get(key)
    if value is None:
        return ""
    if key == "p_value":
        return _evidence(row)
    if key == "out":
        return escape(_short(value))
    if key == "frame":
        frame = Frame(**value)
        return "" if frame.is_whole else str(frame)
    return f"{value:.3g}" if isinstance(value, float) else escape(str(value))


def _evidence(row: Row) -> str:
    """How sure a verdict is: counting bits would mislead where they agree by chance."""
    p_value = row["p_value"]
    if not row["accepted"] and p_value > CHANCE:
        return f"no better than chance (p = {p_value:.1g})"
    short = ""
    if p_value <= row.get("fpr", 0) and row["agreement"] < row["floor"]:
        short = f", agreement {row['agreement']:.2f} instead of {row['floor']:.2f}"
    return f"{row['matches']} of {row['bits']} bits, p = {p_value:.1g}{short}"

"""Running a command over many files: progress, one row each, and an exit code for scripts."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.images.folders import Source
from coverlock_sdk.progress import progress

ACCEPTED, REJECTED, FAILED = 0, 1, 2
"""Exit codes: everything accepted; something rejected; some input could not be processed."""
UNBROKEN = 10_000
"""Columns of a table that goes to a file or a pipe, where nothing calls for breaking names."""


def process(
    sources: list[Source],
    work: Callable[[Source], tuple[bool, dict[str, Any]]],
    columns: dict[str, str],
    as_json: bool,
) -> None:
    """Do ``work`` on every source, show a table or JSON, and exit with a code scripts can rely on.

    ``work`` returns whether the picture was accepted and what to report; a file that fails is
    reported and counted, and never stops the others. ``columns`` maps report keys to headings.
    """
    rows = []
    for source in progress(sources, quiet=len(sources) == 1):
        row: dict[str, Any] = {"file": str(source.path)}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                accepted, details = work(source)
                row |= {"status": "accepted" if accepted else "rejected", **details}
            except CoverLockError as error:
                row |= {"status": "error", "error": str(error)}
        row["warnings"] = [str(warning.message) for warning in caught]
        rows.append(row)
    report(rows, columns, as_json)


def report(rows: list[dict[str, Any]], columns: dict[str, str], as_json: bool) -> None:
    """Show one row for each picture, and exit with a code scripts can rely on."""
    counts = dict.fromkeys(("accepted", "rejected", "error"), 0)
    for row in rows:
        counts[row["status"]] += 1
    if as_json:
        click.echo(json.dumps({"results": rows, "counts": counts}, indent=2, default=str))
    else:
        _show(rows, counts, columns)
    finish(counts)


def finish(counts: dict[str, int]) -> NoReturn:
    """Exit: 0 when everything was accepted, 1 when something was not, 2 when something failed."""
    code = FAILED if counts["error"] else REJECTED if counts["rejected"] else ACCEPTED
    raise click.exceptions.Exit(code)


def _show(rows: list[dict[str, Any]], counts: dict[str, int], columns: dict[str, str]) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = UNBROKEN
    told = [key for key in columns if any(row.get(key) is not None for row in rows)]
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for heading in ("file", "status", *(columns[key] for key in told)):
        table.add_column(heading, overflow="fold")
    colours = {"accepted": "green", "rejected": "red", "error": "yellow"}
    for row in rows:
        status = f"[{colours[row['status']]}]{row['status']}[/]"
        table.add_row(escape(row["file"]), status, *(_cell(row.get(key)) for key in told))
    if any(row["status"] != "error" for row in rows):
        console.print(table)
    for row in rows:
        if row["status"] == "error":
            error = escape(row["error"])
            console.print(f"[yellow]error:[/] {error}", highlight=False, soft_wrap=True)
        for text in row["warnings"]:
            console.print(f"[yellow]warning:[/] {escape(text)}", highlight=False, soft_wrap=True)
    if len(rows) > 1:
        console.print(", ".join(f"{count} {status}" for status, count in counts.items() if count))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else escape(str(value))

"""What commands print on standard output: lines for a person, or one JSON document."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table


def answer(document: Any, as_json: bool, *lines: str) -> None:
    """Print ``document`` as JSON, or else the ``lines`` that tell a person the same."""
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
        return
    table = Table(*headings)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def print_json(document: Any) -> None:
    """Print one strict JSON document: numbers that JSON does not have become null."""
    click.echo(json.dumps(_strict(document), indent=2, default=str, allow_nan=False))


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

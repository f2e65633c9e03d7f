"""How far a long loop has come: a bar on a terminal, now and then a line in a log."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    track,
)

Item = TypeVar("Item")

SECONDS_BETWEEN_LINES = 30.0


def progress(
    items: Iterable[Item], label: str = "pictures", total: int | None = None, quiet: bool = False
) -> Iterator[Item]:
    """``items`` one by one, telling the standard error stream how many are done."""
    if total is None and isinstance(items, Collection):
        total = len(items)
    console = Console(stderr=True)
    if quiet:
        yield from items
    elif console.is_terminal:
        yield from track(items, label, total=total, console=console, transient=True)
    else:
        yield from _lines(items, label, total, console)


def step_counter(console: Console | None = None) -> Progress:
    """A bar for steps that report themselves, as those of a training run do."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeRemainingColumn(), console=console)


def _lines(
    items: Iterable[Item], label: str, total: int | None, console: Console
) -> Iterator[Item]:
    """A line whenever some time has passed: a log wants few of them, and none for short loops."""
    last = time.monotonic()
    for done, item in enumerate(items):
        if time.monotonic() - last > SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            console.print(f"{label}: {done}{f' of {total}' if total else ''}", highlight=False)
        yield item

"""Progress of long loops: a bar on a terminal, or a line in a log now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
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
Report = Callable[[int, dict[str, float]], None]
"""Called after a training step with its number and what was measured."""

SECONDS_BETWEEN_LINES = 30.0


def progress(
    items: Iterable[Item], label: str = "pictures", total: int | None = None, quiet: bool = False
) -> Iterator[Item]:
    """Yield ``items``, and report on standard error how many are done.

    A log gets a line every ``SECONDS_BETWEEN_LINES``, so short loops are silent there.
    """
    if total is None and isinstance(items, Collection):
        total = len(items)
    console, last = Console(stderr=True), time.monotonic()
    if console.is_terminal and not quiet:
        yield from track(items, label, total=total, console=console, transient=True)
        return
    for done, item in enumerate(items):
        if not quiet and time.monotonic() - last > SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            console.print(f"{label}: {done}{f' of {total}' if total else ''}", highlight=False)
        yield item


@contextmanager
def working(label: str) -> Iterator[None]:
    """Say on standard error what takes so long: a spinner on a terminal, or a line in a log."""
    console = Console(stderr=True)
    if not console.is_terminal:
        console.print(label, highlight=False)
    with console.status(label):
        yield


@contextmanager
def step_progress(
    label: str,
    steps: int,
    line: Callable[[int, dict[str, float]], str] = lambda step, figures: "",
) -> Iterator[Report]:
    """A bar on standard error for the steps of a training; ``line`` may print a text for a step.

    The bar starts with the first step, because preparing the data has a bar of its own.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True))
    task = bar.add_task(label, total=steps)

    def report(step: int, figures: dict[str, float]) -> None:
        bar.start()
        bar.update(task, completed=step)
        if text := line(step, figures):
            bar.console.print(f"{label} {step}: {text}")

    try:
        yield report
    finally:
        if bar.live.is_started:
            bar.stop()

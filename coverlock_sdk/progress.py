"""Progress of long loops: a bar on a terminal, or a line in a log now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
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
    """Yield ``items``, and report on the standard error stream how many are done."""
    if total is None and isinstance(items, Collection):
        total = len(items)
    console = Console(stderr=True)
    if quiet:
        yield from items
    elif console.is_terminal:
        yield from track(items, label, total=total, console=console, transient=True)
    else:
        yield from _lines(items, label, total, console)


class StepProgress:
    """A bar on the standard error stream for each stage of a training, and lines between.

    ``stages`` gives the number of steps of each stage; ``line`` returns the text to print for a
    step, if any. A bar starts with its stage, because caching before it has a bar of its own.
    """

    def __init__(
        self,
        stages: Mapping[str, int],
        line: Callable[[int, dict[str, float]], str] = lambda step, figures: "",
    ) -> None:
        self.stages, self.line = stages, line
        self._bars: dict[str, Progress] = {}

    def __enter__(self) -> StepProgress:
        return self

    def __exit__(self, *exception: object) -> None:
        for bar in self._bars.values():
            _close(bar)

    def of(self, stage: str) -> Callable[[int, dict[str, float]], None]:
        """What to tell about one stage."""
        return partial(self, stage)

    def __call__(self, stage: str, step: int, figures: dict[str, float]) -> None:
        """Move the bar of ``stage`` to ``step``, and print a line where there is one."""
        if stage not in self._bars:
            self._bars[stage] = _bar(stage, self.stages[stage])
        bar = self._bars[stage]
        bar.update(bar.task_ids[0], completed=step)
        if bar.finished:
            _close(bar)
        if line := self.line(step, figures):
            bar.console.print(f"{stage} {step}: {line}")


def _bar(stage: str, steps: int) -> Progress:
    """A bar that has been started."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True))
    bar.add_task(stage, total=steps)
    bar.start()
    return bar


def _close(bar: Progress) -> None:
    """Stop a bar once; a second time would print an empty line."""
    if bar.live.is_started:
        bar.stop()


def _lines(
    items: Iterable[Item], label: str, total: int | None, console: Console
) -> Iterator[Item]:
    """A line every ``SECONDS_BETWEEN_LINES``: a log needs few, and none for short loops."""
    last = time.monotonic()
    for done, item in enumerate(items):
        if time.monotonic() - last > SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            console.print(f"{label}: {done}{f' of {total}' if total else ''}", highlight=False)
        yield item

"""How far a long run of many stages is, and about how long the rest of it takes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

Item = TypeVar("Item")

RECENT = 10
"""Steps of a kind whose mean time is expected of the next: the first may be warming up."""

SECONDS_BETWEEN_LINES = 30.0


@dataclass
class _Pace:
    """How long the steps of one kind of stage take, and how many such a stage has."""

    steps: int = 0
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    @property
    def step(self) -> float:
        return sum(self.seconds) / len(self.seconds)

    @property
    def stage(self) -> float:
        return self.step * self.steps


class Forecast:
    """Expects of every stage what the last one of its kind took: an attack behind one defence
    costs about what it costs behind another. A stage is called "WHERE: KIND"."""

    def __init__(self, stages: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._ahead = list(stages)
        self.stages = len(stages)
        self._clock = clock
        self._paces: dict[str, _Pace] = {}
        self._current: _Pace | None = None
        self._left = 0
        self._since = self._started = clock()

    @property
    def stage(self) -> int:
        """The number of the stage that runs, from 1."""
        return max(self.stages - len(self._ahead), 1)

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self._clock() - self._started

    def begin(self, stage: str, steps: int) -> None:
        """A stage begins; planned ones before it did not take place."""
        if stage in self._ahead:
            del self._ahead[: self._ahead.index(stage) + 1]
        self._current = self._paces.setdefault(_kind(stage), _Pace())
        self._current.steps = self._left = steps
        self._since = self._clock()

    def step(self) -> None:
        """A step of the stage is done."""
        assert self._current is not None
        now = self._clock()
        self._current.seconds.append(now - self._since)
        self._since, self._left = now, max(self._left - 1, 0)

    def remaining(self) -> float | None:
        """About how many seconds are left; None as long as nothing is known."""
        known = [pace for pace in self._paces.values() if pace.seconds]
        if not known:
            return None
        usual = sum(pace.stage for pace in known) / len(known)
        left = sum(
            pace.stage if (pace := self._paces.get(_kind(stage))) and pace.seconds else usual
            for stage in self._ahead
        )
        if self._current is not None and self._current.seconds:
            left += self._current.step * self._left
        return left


class OverallProgress:
    """One bar for a whole run on a terminal, with the stage it is in; a line now and then in a log.

    The bar is about time, not steps. ``deadline`` is when nothing new is begun.
    """

    def __init__(
        self,
        what: str,
        stages: Sequence[str],
        deadline: float | None = None,
        console: Console | None = None,
    ) -> None:
        self._what, self._deadline = what, deadline
        self.forecast = Forecast(stages)
        self._console = console or Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
        self._bars = Progress(*columns, console=self._console, transient=True)
        self._task = self._bars.add_task(what, total=1.0, left="")
        self._last_line = time.monotonic()

    def __enter__(self) -> OverallProgress:
        if self._console.is_terminal:
            self._bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._console.is_terminal:
            self._bars.stop()

    def steps(self, items: Sequence[Item], stage: str) -> Iterator[Item]:
        """``items`` one by one."""
        self.forecast.begin(stage, len(items))
        for done, item in enumerate(items):
            self._show(f"{stage} {done + 1} of {len(items)}")
            yield item
            self.forecast.step()

    def left(self) -> str:
        """About how long it will take, in words."""
        seconds = self.forecast.remaining()
        if self._deadline is not None:
            allowed = max(self._deadline - time.monotonic(), 0.0)
            seconds = allowed if seconds is None else min(seconds, allowed)
        return "" if seconds is None else f"about {duration(seconds)} left"

    def _show(self, doing: str) -> None:
        number = f"{self._what} {self.forecast.stage}/{self.forecast.stages}"
        elapsed, left = self.forecast.elapsed, self.forecast.remaining()
        share = 0.0 if left is None else elapsed / max(elapsed + left, 1e-9)
        if self._console.is_terminal:
            self._bars.update(
                self._task, description=f"{number}: {doing}", completed=share, left=self.left()
            )
        elif time.monotonic() - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            self._console.print(f"{number}: {doing}, {self.left()}", highlight=False)


def duration(seconds: float) -> str:
    """A time span as people say it: 40 s, 12 min, 3 h 20 min."""
    if seconds < 60:
        return f"{max(round(seconds / 5) * 5, 5)} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def _kind(stage: str) -> str:
    return stage.rpartition(": ")[2]

"""Timing in turns: everything runs once in each, so that a busy machine slows all of it alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_sdk.progress import progress


def seconds_in_turns(
    works: Sequence[Callable[[], Any]],
    turns: int,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
    label: str | None = None,
) -> npt.NDArray[np.float64]:
    """Seconds (turns, works) of each work, without the first turns, which warm up.

    With a ``label`` it shows how many turns are done.
    """
    seconds = np.zeros((warm_up + turns, len(works)))
    for turn in progress(list(seconds), label or "", quiet=label is None):
        for column, work in enumerate(works):
            start = clock()
            work()
            turn[column] = clock() - start
    return seconds[warm_up:]

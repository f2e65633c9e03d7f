"""Timing in turns: everything runs once in each, so that a busy machine slows all of it alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def seconds_in_turns(
    works: Sequence[Callable[[], Any]],
    turns: int,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> npt.NDArray[np.float64]:
    """Seconds (turns, works) of each work, without the first turns, which warm up."""
    seconds = np.zeros((warm_up + turns, len(works)))
    for turn in seconds:
        for column, work in enumerate(works):
            start = clock()
            work()
            turn[column] = clock() - start
    return seconds[warm_up:]

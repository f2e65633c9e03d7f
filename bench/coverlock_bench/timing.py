"""Timing in turns: each turn runs everything once, so a busy machine slows all of it equally."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def seconds_in_turns(works: Sequence[Callable[[], Any]], turns: int) -> npt.NDArray[np.float64]:
    """Seconds (turns, works) of each work, after one warm-up turn."""
    seconds = np.zeros((1 + turns, len(works)))
    for turn in seconds:
        for column, work in enumerate(works):
            start = time.perf_counter()
            work()
            turn[column] = time.perf_counter() - start
    return seconds[1:]

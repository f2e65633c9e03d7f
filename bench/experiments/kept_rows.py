"""One row of numbers a picture, kept in a file: an interrupted or repeated run goes on there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from coverlock_sdk.arrays import AnyArray
from coverlock_sdk.progress import progress

Item = TypeVar("Item")

SAVE_EVERY = 100


def kept_rows(
    path: Path, items: Sequence[Item], row: Callable[[Item], Any], label: str
) -> AnyArray:
    """What ``row`` makes of each item, (N, ...); ``path`` names everything that it depends on."""
    done = list(np.load(path)) if path.exists() else []
    for item in progress(items[len(done) :], label):
        done.append(row(item))
        if len(done) % SAVE_EVERY == 0 or len(done) == len(items):
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, np.stack(done))
    return np.stack(done)

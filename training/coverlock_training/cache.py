"""Arrays that take long to compute and are kept as memory-mapped files between runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_sdk.progress import progress


def remembered(
    folder: Path,
    name: str,
    settings: dict[str, Any],
    compute: Callable[[npt.NDArray[np.int64]], npt.NDArray[Any]],
    rows: int,
    *,
    chunk: int = 64,
    label: str | None = None,
) -> npt.NDArray[Any]:
    """The array whose rows ``compute`` makes, ``chunk`` at a time, read-only from a file.

    The file's name carries a digest of ``settings``, so what other settings made is never read;
    a note beside it counts the finished rows, so an interrupted computation goes on there.
    With a ``label`` it tells how far it has come.
    """
    text = json.dumps({**settings, "rows": rows}, sort_keys=True)
    file = folder / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.npy"
    note = file.with_suffix(".done")
    folder.mkdir(parents=True, exist_ok=True)
    done = int(note.read_text()) if note.exists() and file.exists() else 0
    array: npt.NDArray[Any] | None = np.load(file, mmap_mode="r+") if done else None
    starts = range(done, rows, chunk)
    for start in progress(starts, f"{label}, {chunk} at a time", quiet=label is None):
        block = compute(np.arange(start, min(start + chunk, rows)))
        if array is None:
            shape = (rows, *block.shape[1:])
            array = np.lib.format.open_memmap(file, "w+", dtype=block.dtype, shape=shape)
        done = start + len(block)
        array[start:done] = block
        array.flush()  # type: ignore[attr-defined]
        note.write_text(str(done))
    return np.load(file, mmap_mode="r")

"""Photos of a folder for training: read, brought to size, and cached."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Images
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.resampling import resample
from coverlock_sdk.progress import progress

Bytes = npt.NDArray[np.uint8]

CHUNK = 16
"""Rows between two notes of how far a computation has come."""


def cached_rows(
    paths: Sequence[Path],
    cache: Path,
    name: str,
    row_of: Callable[[Path], npt.NDArray[Any]],
    **settings: Any,
) -> npt.NDArray[Any]:
    """What ``row_of`` makes of each photo with these ``settings``, read-only from a file.

    The file's name carries a digest of the photos' names and the settings, so what others made is
    never read. A note beside it counts the finished rows: an interrupted computation goes on there.
    """
    text = json.dumps({**settings, "photos": [path.name for path in paths]}, sort_keys=True)
    file = cache / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.npy"
    note = file.with_suffix(".done")
    cache.mkdir(parents=True, exist_ok=True)
    done = int(note.read_text()) if note.exists() and file.exists() else 0
    array: npt.NDArray[Any] | None = np.load(file, mmap_mode="r+") if done else None
    for row in progress(range(done, len(paths)), f"{name} of photos"):
        values = row_of(paths[row])
        if array is None:
            shape = (len(paths), *values.shape)
            array = np.lib.format.open_memmap(file, "w+", dtype=values.dtype, shape=shape)
        array[row] = values
        if (row + 1) % CHUNK == 0 or row + 1 == len(paths):
            array.flush()  # type: ignore[attr-defined]
            note.write_text(str(row + 1))
    return np.load(file, mmap_mode="r")


def rgb(path: Path) -> Bytes:
    """A photo at its own size: (H, W, 3)."""
    return read(path).to_bytes()


def square(picture: Any, side: int) -> Images:
    """What a network of this input size sees of a picture of any kind: (3, side, side)."""
    return read(picture).view((side, side))


def shrunk(picture: Bytes, side: int) -> Images:
    """An 8-bit picture (H, W, 3) as float (3, side, side) in [0, 1]."""
    return resample(np.divide(picture.transpose(2, 0, 1), 255, dtype=np.float32), (side, side))


def rounded(images: Images) -> Bytes:
    """Pictures in [0, 1] as 8-bit ones of the same layout."""
    return np.rint(np.clip(images, 0, 1) * 255).astype(np.uint8)

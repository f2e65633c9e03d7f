"""Photos of a folder for training: read, brought to size, and cached."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Images
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.resampling import resample
from coverlock_training.cache import remembered

Bytes = npt.NDArray[np.uint8]


def names_digest(paths: Sequence[Path]) -> str:
    """A digest that stands for a list of pictures."""
    return hashlib.sha256("\n".join(path.name for path in paths).encode()).hexdigest()


def cached_rows(
    paths: Sequence[Path],
    cache: Path,
    name: str,
    row_of: Callable[[Path], npt.NDArray[Any]],
    label: str | None = None,
    chunk: int = 64,
    **settings: Any,
) -> npt.NDArray[Any]:
    """What ``row_of`` makes of each photo with these ``settings``, kept ``chunk`` at a time."""
    return remembered(
        cache,
        name,
        {"pictures": names_digest(paths), **settings},
        lambda rows: np.stack([row_of(paths[row]) for row in rows]),
        len(paths),
        chunk=chunk,
        label=label,
    )


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

"""Photos of a folder for training: split in two, read, brought to size, and cached."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Images
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.folders import pictures_in
from coverlock_sdk.images.resampling import resample
from coverlock_sdk.training.cache import remembered

HELD_OUT = 0.1
"""The share that training of the shipped hashes leaves out."""

Bytes = npt.NDArray[np.uint8]


def split(folder: Path, held_out: float) -> tuple[list[Path], list[Path]]:
    """The pictures of ``folder`` for training, and the share of them held out for validation.

    A picture's name alone decides, so its side does not change when the collection does.
    """
    paths = pictures_in(folder, deep=False)
    training: list[Path] = []
    validation: list[Path] = []
    for path in paths:
        (validation if is_held_out(path, held_out) else training).append(path)
    if len(training) < 2 or not validation:
        raise PictureError(f"{folder} holds too few pictures to train on ({len(paths)})")
    return training, validation


def is_held_out(path: Path, share: float = HELD_OUT) -> bool:
    """Whether a picture belongs to the ``share`` that nothing is fitted on; its name decides."""
    draw = int.from_bytes(hashlib.sha256(path.stem.encode()).digest()[:4], "big") / 2**32
    return draw < share


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

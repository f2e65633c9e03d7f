"""Photos for a measurement: of any size and mode, brought to one size, the unreadable named."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coverlock_bench.photos import find_photos, load_squares
from coverlock_sdk.errors import PictureError
from coverlock_sdk.progress import progress

SIDE = 256


@dataclass(frozen=True)
class Collection:
    """Middle squares of photos, all ``side`` pixels wide, in an order that the seed decides."""

    name: str
    pictures: list[npt.NDArray[np.uint8]]
    side: int
    found: int
    """Pictures in the folder, of which only as many were read as can be used."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Files that could not be read, and why."""


def collect(
    folder: Path | None, limit: int, side: int = SIDE, seed: int = 0, quiet: bool = True
) -> Collection:
    """Read up to ``limit`` photos of ``folder``; one that cannot be read is left out and named."""
    photos = find_photos(folder)
    order = np.random.default_rng(seed).permutation(len(photos))
    pictures: list[npt.NDArray[np.uint8]] = []
    left_out: dict[str, str] = {}
    for index in progress(order, "reading photos", quiet=quiet):
        if len(pictures) == limit:
            break
        try:
            pictures += load_squares([photos[index]], side)
        except PictureError as error:
            left_out[photos[index].name] = str(error)
    name = folder.resolve().name if folder else "photos"
    return Collection(name, pictures, side, len(photos), left_out)

"""Photos for a measurement: of any size and mode, brought to one size, the unreadable named."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coverlock_bench.ledger import digest
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
    """Files that were not used, and why: unreadable, or the same picture as another."""
    naturals: list[npt.NDArray[np.uint8]] = field(default_factory=list)
    """Further photos, for attackers who need unmarked pictures of their own."""


def collect(
    folder: Path | None,
    limit: int,
    naturals: int = 0,
    side: int = SIDE,
    seed: int = 0,
    quiet: bool = True,
    outside: Path | None = None,
) -> Collection:
    """Read up to ``limit`` different photos of ``folder``, and then up to ``naturals`` more.

    One that cannot be read is left out and named, and so is a copy: no picture may be both stolen
    from and forged. What lies below ``outside`` is not looked at.
    """
    photos = [photo for photo in find_photos(folder) if not _below(photo, outside)]
    order = np.random.default_rng(seed).permutation(len(photos))
    pictures: dict[str, npt.NDArray[np.uint8]] = {}
    left_out: dict[str, str] = {}
    for index in progress(order, "reading photos", quiet=quiet):
        if len(pictures) == limit + naturals:
            break
        try:
            [picture] = load_squares([photos[index]], side)
        except PictureError as error:
            left_out[photos[index].name] = str(error)
            continue
        shown = digest(picture)
        if shown in pictures:
            left_out[photos[index].name] = f"{photos[index].name} is a copy of another picture"
        else:
            pictures[shown] = picture
    name = folder.resolve().name if folder else "photos"
    used = list(pictures.values())
    return Collection(name, used[:limit], side, len(photos), left_out, used[limit:])


def _below(path: Path, folder: Path | None) -> bool:
    return folder is not None and path.resolve().is_relative_to(folder.resolve())

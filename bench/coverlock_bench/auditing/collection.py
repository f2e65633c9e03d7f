"""Photos for a measurement: reads any size and mode, crops to one size, names unreadable files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.ledger import digest
from coverlock_bench.photos import Picture8, find_photos, load_squares
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.codecs import open_image
from coverlock_sdk.progress import progress

SIDE = 256


@dataclass(frozen=True)
class Collection:
    """Middle squares of photos, all ``side`` pixels wide, in an order set by the seed."""

    name: str
    pictures: list[Picture8]
    side: int
    found: int
    """Pictures in the folder; only as many as needed were read."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Files that were not used, and why: unreadable, or the same picture as another."""
    naturals: list[Picture8] = field(default_factory=list)
    """More photos, for attackers who need their own unmarked pictures."""
    files: list[Path] = field(default_factory=list)
    """Where the pictures came from, to read them again at a larger size."""

    def described(self) -> dict[str, Any]:
        """Number and size of the pictures, and which were not used, for a result file."""
        return {
            "read": len(self.pictures),
            "found": self.found,
            "side": self.side,
            "left_out": self.left_out,
        }

    def squares(self, side: int, limit: int) -> list[Picture8]:
        """Middle squares of up to ``limit`` photos with at least ``side`` pixels per side."""
        large: list[Path] = []
        for file in self.files:
            if len(large) < limit:
                with open_image(file) as picture:
                    large += [file] if min(picture.size) >= side else []
        return load_squares(large, side)


def collect(
    folder: Path | None,
    limit: int,
    naturals: int = 0,
    side: int = SIDE,
    seed: int = 0,
    quiet: bool = True,
    outside: Path | None = None,
) -> Collection:
    """Read up to ``limit`` different photos from ``folder``, and then up to ``naturals`` more.

    Unreadable photos are left out and named, and so are copies, because no picture may be both
    stolen from and forged. Files below ``outside`` are ignored.
    """
    photos = [photo for photo in find_photos(folder) if not _below(photo, outside)]
    order = np.random.default_rng(seed).permutation(len(photos))
    pictures: dict[str, tuple[Path, Picture8]] = {}
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
            pictures[shown] = photos[index], picture
    name = folder.resolve().name if folder else "photos"
    files, used = [file for file, _ in pictures.values()], [seen for _, seen in pictures.values()]
    naturals_used, files = used[limit:], files[:limit]
    return Collection(name, used[:limit], side, len(photos), left_out, naturals_used, files)


def _below(path: Path, folder: Path | None) -> bool:
    return folder is not None and path.resolve().is_relative_to(folder.resolve())

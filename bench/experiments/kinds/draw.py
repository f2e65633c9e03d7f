"""``python -m experiments draw``: a folder of pictures for each kind that codes hardly tell apart.

Of photos of different things any two codes agree in half of their bits. Forms, cards, receipts and
screens of one template agree in more.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
from PIL import Image

from coverlock_bench.measurement import images_option, number_option
from coverlock_bench.photos import find_photos
from coverlock_sdk.progress import progress
from experiments.kinds import designs
from experiments.kinds.desk import Desk, Photo, photos_from

KINDS: dict[str, Callable[[Desk], Image.Image]] = {
    "text of one layout": designs.page,
    "forms": designs.form,
    "ID cards": designs.licence,
    "receipts": designs.till_slip,
    "parcel labels": designs.parcel_label,
    "dashboards": designs.dashboard,
}
"""The design of each kind."""


def drawn(kind: str, place: int, photo: Photo) -> Image.Image:
    """Picture number ``place`` of a kind, the same whenever it is drawn."""
    return KINDS[kind](Desk.open(kind, place, photo))


@click.command("draw")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@images_option
@number_option("--count", 20, "Pictures of each kind.")
def draw_command(folder: Path, images: Path | None, count: int) -> None:
    """Draw pictures of six kinds into subfolders of FOLDER, which 'kinds FOLDER' compares."""
    photos = find_photos(images)
    for kind in progress(list(KINDS), "kinds"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for place in range(count):
            # Pictures of a kind share no photo where there are enough.
            own = photos[place::count] or photos
            drawn(kind, place, photos_from(own)).save(folder / kind / f"{place:03}.png")

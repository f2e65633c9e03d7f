"""``coverlock bench hash``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_bench.hashes.tables import HASH_DISTORTIONS, HASHES
from coverlock_bench.measurement import (
    Measured,
    count_option,
    images_option,
    measurement,
    seed_option,
)
from coverlock_bench.photos import find_photos


@measurement(
    "bench hash",
    images_option,
    seed_option,
    click.option(
        "--hash",
        "hashes",
        multiple=True,
        show_default="all that are installed",
        help="Image hash. Repeatable.",
    ),
    count_option,
)
def hash_command(
    hashes: tuple[str, ...], images: Path | None, count: int | None, seed: int
) -> Measured:
    """Compare hashes: errors under distortion, agreement of different pictures, size, speed.

    Hashes that support registration are given the frame that a crop or a turn shows.
    """
    from coverlock_bench.hashes.hash_report import hash_report, settings

    photos = find_photos(images)[:count]
    figures = hash_report(hashes, photos, seed)
    notes = [f"left out: {name}, because {reason}" for name, reason in figures["left_out"].items()]
    summary = "\n\n".join(table.markdown(figures) for table in (HASHES, HASH_DISTORTIONS))
    return Measured(settings(photos, seed), figures, summary, tuple(notes))

"""``coverlock bench hash`` and ``coverlock bench calibration``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_bench.measurement import (
    Measured,
    count_option,
    hashes_option,
    images_option,
    measurement,
    picture_option,
    seed_option,
    watermarks_option,
)
from coverlock_bench.photos import find_photos
from coverlock_sdk.loading import DEFAULT_HASH


@measurement("hash", hashes_option(), images_option, count_option(), seed_option, picture_option)
def hash_command(
    hashes: tuple[str, ...], images: Path | None, count: int | None, seed: int, picture: Path | None
) -> Measured:
    """Compare hashes: errors under distortion, agreement of different pictures, size, speed."""
    from coverlock_bench.hashes.hash_picture import draw_hashes
    from coverlock_bench.hashes.hash_report import hash_report, settings
    from coverlock_bench.hashes.tables import HASHES

    photos = find_photos(images)[:count]
    figures = hash_report(hashes, photos, seed)
    if picture:
        draw_hashes(figures, picture)
    notes = [f"left out: {name}, since {reason}" for name, reason in figures["left_out"].items()]
    return Measured(settings(photos, seed), figures, HASHES.markdown(figures), tuple(notes))


@measurement(
    "calibration",
    watermarks_option,
    images_option,
    hashes_option(DEFAULT_HASH),
    count_option(),
    click.option(
        "--messages", default=20, show_default=True, help="Fixed messages, all-zero first."
    ),
    seed_option,
)
def calibration(
    watermarks: tuple[str, ...],
    images: Path | None,
    hashes: tuple[str, ...],
    count: int | None,
    messages: int,
    seed: int,
) -> Measured:
    """Check the p-values of unmarked photos, with each of many messages held fixed."""
    from coverlock_bench.hashes.null_calibration import null_calibration

    photos = find_photos(images)[:count]
    figures = {name: null_calibration(name, hashes, photos, messages, seed) for name in watermarks}
    config = {"hashes": hashes, "messages": messages, "seed": seed, "photos": len(photos)}
    return Measured(config, figures)

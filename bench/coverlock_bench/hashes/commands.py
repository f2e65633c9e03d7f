"""``coverlock bench hash`` and ``coverlock bench calibration``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_bench.measurement import (
    Measured,
    count_option,
    hashes_option,
    kept,
    measurement,
    number_option,
)
from coverlock_bench.photos import find_photos
from coverlock_sdk.loading import DEFAULT_HASH


@measurement(
    "hash",
    "images seed picture",
    hashes_option(),
    count_option(),
    click.option(
        "--kinds",
        type=click.IntRange(2),
        help="Compare this many drawn pictures of each kind (documents, screens, charts, ...) too.",
    ),
    click.option(
        "--collisions",
        type=click.IntRange(1),
        help="Attack this many of the photos with gradients too; takes minutes.",
    ),
    click.option(
        "--curve",
        is_flag=True,
        help="With --collisions: at other budgets, and in parts of the space of changes, too.",
    ),
)
def hash_command(
    hashes: tuple[str, ...],
    images: Path | None,
    count: int | None,
    kinds: int | None,
    collisions: int | None,
    curve: bool,
    seed: int,
    picture: Path | None,
) -> Measured:
    """Compare hashes: errors under distortion, agreement of different pictures, size, speed.

    A second table holds the figures against the bars that a default hash has to clear.
    """
    from coverlock_bench.hashes.hash_picture import draw_hashes
    from coverlock_bench.hashes.hash_report import hash_report, settings
    from coverlock_bench.hashes.tables import BARS, HASHES

    photos = find_photos(images)[:count]
    figures = hash_report(hashes, photos, seed, kinds or 0, collisions or 0, curve)
    if picture:
        draw_hashes(figures, picture)
    notes = [f"left out: {name}, since {reason}" for name, reason in figures["left_out"].items()]
    config = {**settings(photos, seed), "kinds": kinds, "collisions": collisions, "curve": curve}
    summary = f"{HASHES.markdown(figures)}\n\n{BARS.markdown(figures)}"
    return Measured(config, figures, summary, tuple(notes))


@measurement(
    "calibration",
    "watermarks images seed keep",
    hashes_option(DEFAULT_HASH),
    count_option(),
    number_option("--messages", 20, "Fixed messages, all-zero first."),
    click.option("--quarters", is_flag=True, help="The four quarters of each photo too."),
)
def calibration(
    watermarks: tuple[str, ...],
    images: Path | None,
    hashes: tuple[str, ...],
    count: int | None,
    messages: int,
    quarters: bool,
    seed: int,
    keep: Path | None,
) -> Measured:
    """Check the p-values of unmarked photos, with each of many messages held fixed."""
    from coverlock_bench.hashes.null_calibration import null_calibration

    photos = find_photos(images)[:count]
    config = {"hashes": hashes, "messages": messages, "seed": seed, "photos": len(photos)}
    config["quarters"] = quarters
    figures = kept(keep, config)
    for name in watermarks:
        figures[name] = null_calibration(name, hashes, photos, messages, seed, quarters)
    return Measured(config, figures)

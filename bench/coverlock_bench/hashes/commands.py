"""``coverlock bench hash`` and ``coverlock bench calibration``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_bench.measurement import FOLDER, Measured, count_option, measurement, number_option
from coverlock_bench.photos import find_photos


@measurement(
    "bench hash",
    "images seed",
    click.option(
        "--hash", "hashes", multiple=True, help="May be repeated; default: all that are installed."
    ),
    count_option(),
    click.option(
        "--kinds",
        type=FOLDER,
        help="Folder with subfolders of pictures that are alike, such as pages of one form; "
        "compare those of each subfolder too.",
    ),
)
def hash_command(
    hashes: tuple[str, ...],
    images: Path | None,
    count: int | None,
    kinds: Path | None,
    seed: int,
) -> Measured:
    """Compare hashes: errors under distortion, agreement of different pictures, size, speed.

    Hashes that support registration are given the frame that a crop or a turn shows.
    """
    from coverlock_bench.hashes import tables
    from coverlock_bench.hashes.hash_report import hash_report, settings

    photos = find_photos(images)[:count]
    figures = hash_report(hashes, photos, seed, kinds)
    notes = [f"left out: {name}, since {reason}" for name, reason in figures["left_out"].items()]
    shown = [tables.HASHES, tables.HASH_LENGTHS, tables.HASH_DISTORTIONS]
    shown += [tables.KINDS] if kinds else []
    config = {**settings(photos, seed), "kinds": kinds and kinds.name}
    summary = "\n\n".join(table.markdown(figures) for table in shown)
    return Measured(config, figures, summary, tuple(notes))


@measurement(
    "bench calibration",
    "watermarks images hash seed",
    count_option(),
    number_option("--messages", 20, "Fixed messages, all-zero first."),
)
def calibration(
    watermarks: tuple[str, ...],
    images: Path | None,
    hash: str,
    count: int | None,
    messages: int,
    seed: int,
) -> Measured:
    """Check the p-values of unmarked photos, for each of many fixed messages."""
    from coverlock_bench.hashes.null_calibration import null_calibration
    from coverlock_bench.hashes.tables import CALIBRATION

    photos = find_photos(images)[:count]
    config = {"hash": hash, "messages": messages, "seed": seed, "photos": len(photos)}
    figures = {name: null_calibration(name, hash, photos, messages, seed) for name in watermarks}
    return Measured(config, figures, CALIBRATION.markdown(figures))

"""``coverlock bench hash``, its relatives, and other measurements in which the hash decides."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from coverlock_bench.options import (
    hash_option,
    held_out_option,
    images_option,
    out_option,
    watermarks_option,
)
from coverlock_bench.photos import find_photos
from coverlock_bench.results import write_and_print
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.hardening import Hardening
from coverlock_sdk.lock import DEFAULT_FPR, DEFAULT_HASH
from coverlock_sdk.manager import plugin_manager


@click.command("hash")
@click.option(
    "--hash", "hashes", multiple=True, help="May be repeated; otherwise all that are installed."
)
@images_option
@click.option("--count", type=click.IntRange(2), help="How many photos to use; otherwise all.")
@click.option(
    "--kinds",
    type=click.IntRange(2),
    help="Compare so many drawn pictures of each kind (documents, screens, charts, ...), too.",
)
@click.option(
    "--collisions",
    type=click.IntRange(1),
    help="Attack so many of the photos with gradients, too; takes minutes.",
)
@click.option("--seed", default=0, show_default=True)
@out_option
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw errors and agreement to this file (PNG, PDF or SVG).",
)
@json_option
def hash_command(
    hashes: tuple[str, ...],
    images: Path | None,
    count: int | None,
    kinds: int | None,
    collisions: int | None,
    seed: int,
    out: Path,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Compare hashes: errors under distortion, agreement of different pictures, size, speed.

    Every bar that the figures decide is printed with them.
    """
    from coverlock_bench.hashes.bars import bars_summary
    from coverlock_bench.hashes.hash_picture import draw_hashes
    from coverlock_bench.hashes.hash_report import hash_report, settings
    from coverlock_bench.hashes.tables import hash_summary

    photos = find_photos(images)[:count]
    figures = hash_report(hashes, photos, seed, kinds or 0, collisions or 0)
    summary = f"{hash_summary(figures)}\n\n{bars_summary(figures)}"
    config = {**settings(photos, seed), "kinds": kinds, "collisions": collisions}
    write_and_print(out, "bench hash", config, figures, as_json, summary)
    for name, reason in figures["left_out"].items():
        click.echo(f"left out: {name}, since {reason}", err=True)
    if picture:
        draw_hashes(figures, picture)


@click.command("hash-variants")
@click.option(
    "--images",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="Folder of training photos; a tenth of them is held out for the figures.",
)
@click.option(
    "--run",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder that keeps cached features and checkpoints.",
)
@out_option
@json_option
def hash_variants_command(images: Path, run: Path, out: Path, as_json: bool) -> None:
    """Compare hashes from scratch, on frozen pretrained backbones, and distilled."""
    from coverlock_bench.hashes.hash_variants import hash_variants, settings
    from coverlock_bench.hashes.tables import hash_variants_summary

    figures = hash_variants(images, run)
    summary = hash_variants_summary(figures)
    write_and_print(out, "bench hash-variants", settings(images), figures, as_json, summary)


@click.command("hash-latency")
@click.option("--hash", "hashes", multiple=True, default=(DEFAULT_HASH,), help="May be repeated.")
@click.option("--threads", default=2, show_default=True)
@click.option("--turns", default=50, show_default=True, help="Pictures hashed by each graph.")
@out_option
@json_option
def hash_latency_command(
    hashes: tuple[str, ...], threads: int, turns: int, out: Path, as_json: bool
) -> None:
    """Time hashes in ONNX Runtime beside a network of the shape of DINOv2-S."""
    from coverlock_bench.hashes.hash_latency import hash_latency

    figures = hash_latency(hashes, threads, turns)
    config = {"threads": threads, "turns": turns, "reference": "dinov2-s, random weights"}
    write_and_print(out, "bench hash-latency", config, figures, as_json)


@click.command()
@click.option(
    "-w", "--watermark", "watermarks", multiple=True, help="May be repeated; otherwise all here."
)
@images_option
@hash_option
@held_out_option
@click.option("--count", default=40, show_default=True, help="How many photos to use.")
@click.option("--fpr", default=DEFAULT_FPR, show_default=True)
@click.option("--seed", default=0, show_default=True)
@out_option
@json_option
def hardening(
    watermarks: tuple[str, ...],
    images: Path | None,
    hash: str,
    held_out: bool,
    count: int,
    fpr: float,
    seed: int,
    out: Path,
    as_json: bool,
) -> None:
    """Errors of the code on marked photos, as bound and hardened: gain, cost, and forgeries."""
    from coverlock_bench.hashes.hardening import hardening as measure
    from coverlock_bench.hashes.tables import hardening_summary

    photos = find_photos(images, held_out)[:count]
    names = watermarks or tuple(plugin_manager().names("watermark"))
    figures = {name: measure(name, hash, photos, fpr, seed) for name in names}
    config = {"hash": hash, "photos": len(photos), "held_out": held_out, "fpr": fpr, "seed": seed}
    config["settings"] = asdict(Hardening())
    summary = hardening_summary(figures)
    write_and_print(out, "bench hardening", config, figures, as_json, summary)


@click.command()
@watermarks_option
@images_option
@click.option("--hash", "hashes", multiple=True, default=(DEFAULT_HASH,), help="May be repeated.")
@click.option("--count", type=click.IntRange(2), help="How many photos to use; otherwise all.")
@click.option("--messages", default=20, show_default=True, help="Fixed messages, all-zero first.")
@click.option("--seed", default=0, show_default=True)
@out_option
@json_option
def calibration(
    watermarks: tuple[str, ...],
    images: Path | None,
    hashes: tuple[str, ...],
    count: int | None,
    messages: int,
    seed: int,
    out: Path,
    as_json: bool,
) -> None:
    """Check the p-values of unmarked photos, with each of many messages held fixed."""
    from coverlock_bench.hashes.null_calibration import null_calibration

    photos = find_photos(images)[:count]
    figures = {name: null_calibration(name, hashes, photos, messages, seed) for name in watermarks}
    config = {"hashes": hashes, "messages": messages, "seed": seed, "photos": len(photos)}
    write_and_print(out, "bench calibration", config, figures, as_json)


@click.command()
@click.option("-w", "--watermark", default="steganogan", show_default=True)
@click.option("--hash", "hashes", multiple=True, default=("nano", "dct"), show_default=True)
@click.option("--pages", default=6, show_default=True)
@click.option("--fpr", default=DEFAULT_FPR, show_default=True)
@out_option
@json_option
def documents(
    watermark: str, hashes: tuple[str, ...], pages: int, fpr: float, out: Path, as_json: bool
) -> None:
    """Forge between pages of text, where the lock is weaker than between photos."""
    from coverlock_bench.hashes.documents import documents as measure

    figures = measure(watermark, list(hashes), pages, fpr)
    config = {"watermark": watermark, "pages": pages, "fpr": fpr}
    write_and_print(out, "bench documents", config, figures, as_json)

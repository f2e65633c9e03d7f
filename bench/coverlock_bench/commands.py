"""``coverlock bench ...``: measurements whose results are files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from coverlock_bench.photos import find_photos
from coverlock_bench.results import write_result
from coverlock_bench.security import security_command
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.hashing.held_out import HELD_OUT, split
from coverlock_sdk.lock import DEFAULT_FPR, DEFAULT_HASH, DEFAULT_ROUNDS

watermarks_option = click.option(
    "-w", "--watermark", "watermarks", multiple=True, required=True, help="May be repeated."
)
images_option = click.option(
    "--images",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of photos; otherwise the six of 'coverlock fetch photos'.",
)
hash_option = click.option("--hash", default=DEFAULT_HASH, show_default=True)
out_option = click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, help="Result file (JSON)."
)
work_option = click.option(
    "--work",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("runs/adaptive.sqlite"),
    show_default=True,
    help="Measurements made so far; an interrupted run goes on there.",
)


@click.group()
def bench() -> None:
    """Measure: every result is a file that says how it was made."""


bench.add_command(security_command)


@bench.command()
@watermarks_option
@images_option
@hash_option
@click.option("--rounds", default=DEFAULT_ROUNDS, show_default=True)
@click.option("--fpr", default=DEFAULT_FPR, show_default=True)
@out_option
@json_option
def roundtrip(
    watermarks: tuple[str, ...],
    images: Path | None,
    hash: str,
    rounds: int,
    fpr: float,
    out: Path,
    as_json: bool,
) -> None:
    """Mark photos and verify them as saved: unlocked, locked once, locked to a fixed point."""
    from coverlock_bench.roundtrip import roundtrip as measure

    photos = find_photos(images)
    figures = {name: measure(name, photos, hash, rounds, fpr) for name in watermarks}
    config = {"hash": hash, "rounds": rounds, "fpr": fpr, "photos": len(photos)}
    _finish(out, "bench roundtrip", config, figures, as_json)


@bench.command()
@watermarks_option
@images_option
@hash_option
@click.option("--messages", default=20, show_default=True, help="Fixed messages, all-zero first.")
@click.option("--seed", default=0, show_default=True)
@out_option
@json_option
def calibration(
    watermarks: tuple[str, ...],
    images: Path | None,
    hash: str,
    messages: int,
    seed: int,
    out: Path,
    as_json: bool,
) -> None:
    """Check the p-values of unmarked photos, with each of many messages held fixed."""
    from coverlock_bench.null_calibration import null_calibration

    photos = find_photos(images)
    figures = {name: null_calibration(name, hash, photos, messages, seed) for name in watermarks}
    config = {"hash": hash, "messages": messages, "seed": seed, "photos": len(photos)}
    _finish(out, "bench calibration", config, figures, as_json)


@bench.command()
@watermarks_option
@images_option
@hash_option
@click.option("--held-out", is_flag=True, help="Only photos that training leaves out.")
@click.option("--count", default=100, show_default=True, help="How many photos to use.")
@click.option("--fpr", default=DEFAULT_FPR, show_default=True)
@click.option("--seed", default=0, show_default=True)
@out_option
@json_option
def rules(
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
    """Compare the hard and the soft rule: genuine pictures under distortion, and forgeries."""
    from coverlock_bench.rules import compare_rules

    photos = split(images, HELD_OUT)[1] if images and held_out else find_photos(images)
    photos = photos[:count]
    figures = {name: compare_rules(name, hash, photos, fpr, seed) for name in watermarks}
    config = {"hash": hash, "photos": len(photos), "held_out": held_out, "fpr": fpr, "seed": seed}
    _finish(out, "bench rules", config, figures, as_json)


@bench.command("hash")
@click.option(
    "--hash", "hashes", multiple=True, help="May be repeated; otherwise all that are installed."
)
@images_option
@click.option("--count", type=click.IntRange(2), help="How many photos to use; otherwise all.")
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
    seed: int,
    out: Path,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Compare hashes: errors under distortion, agreement of different pictures, size, speed."""
    from coverlock_bench.hash_picture import draw_hashes
    from coverlock_bench.hash_report import hash_report, settings
    from coverlock_bench.tables import hash_summary

    photos = find_photos(images)[:count]
    figures = hash_report(hashes, photos, seed)
    summary = hash_summary(figures)
    _finish(out, "bench hash", settings(photos, seed), figures, as_json, summary)
    for name, reason in figures["left_out"].items():
        click.echo(f"left out: {name}, since {reason}", err=True)
    if picture:
        draw_hashes(figures, picture)


@bench.command()
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
    from coverlock_bench.documents import documents as measure

    figures = measure(watermark, list(hashes), pages, fpr)
    config = {"watermark": watermark, "pages": pages, "fpr": fpr}
    _finish(out, "bench documents", config, figures, as_json)


@bench.command()
@click.option("-w", "--watermark", default="steganogan", show_default=True)
@images_option
@hash_option
@click.option("--count", default=30, show_default=True, help="Targets of each attack.")
@click.option("--only", multiple=True, help="An attack of the table; may be repeated.")
@click.option("--fpr", default=DEFAULT_FPR, show_default=True)
@click.option("--seed", default=0, show_default=True)
@work_option
@out_option
@json_option
def adaptive(
    watermark: str,
    images: Path | None,
    hash: str,
    count: int,
    only: tuple[str, ...],
    fpr: float,
    seed: int,
    work: Path,
    out: Path,
    as_json: bool,
) -> None:
    """Attack the lock as someone who knows it: best match, feature collision, same scene."""
    from coverlock_bench.adaptive import ATTACKS
    from coverlock_bench.adaptive import adaptive as measure
    from coverlock_bench.ledger import Ledger, Run
    from coverlock_bench.tables import adaptive_summary

    photos = find_photos(images)
    run = Run(Ledger(work), quiet=as_json)
    figures = measure(watermark, hash, photos, count, fpr, seed, run, only or ATTACKS)
    config = {"watermark": watermark, "hash": hash, "targets": count, "photos": len(photos)}
    config |= {"fpr": fpr, "seed": seed}
    _finish(out, "bench adaptive", config, figures, as_json, adaptive_summary(figures))


@bench.command()
@images_option
@click.option("--held-out", is_flag=True, help="Only photos that training leaves out.")
@click.option("--count", default=24, show_default=True, help="Forgeries of each attack.")
@click.option("--bits", default=32, show_default=True, help="Bits of a message.")
@click.option("--only", multiple=True, help="A lever of the table; may be repeated.")
@click.option("--fpr", default=DEFAULT_FPR, show_default=True)
@click.option("--seed", default=0, show_default=True)
@work_option
@out_option
@json_option
def levers(
    images: Path | None,
    held_out: bool,
    count: int,
    bits: int,
    only: tuple[str, ...],
    fpr: float,
    seed: int,
    work: Path,
    out: Path,
    as_json: bool,
) -> None:
    """Measure what would raise the bar for a feature collision, and what it would cost."""
    from coverlock_bench.ledger import Ledger, Run
    from coverlock_bench.lever_study import LEVERS, lever_study
    from coverlock_bench.tables import levers_summary

    photos = split(images, HELD_OUT)[1] if images and held_out else find_photos(images)
    run = Run(Ledger(work), quiet=as_json)
    figures = lever_study(photos, count, bits, fpr, seed, run, only or tuple(LEVERS))
    config = {"count": count, "bits": bits, "held_out": held_out, "fpr": fpr, "seed": seed}
    _finish(out, "bench levers", config, figures, as_json, levers_summary(figures))


@bench.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--results", type=click.Path(path_type=Path), default=Path("bench/results"))
@click.option("--check", is_flag=True, help="Only say whether the tables are up to date.")
def tables(files: tuple[Path, ...], results: Path, check: bool) -> None:
    """Render the tables of Markdown FILES from result files."""
    from coverlock_bench.tables import render

    stale = []
    for path in files:
        text = path.read_text()
        rendered = render(text, results)
        if rendered != text:
            stale.append(path)
            if not check:
                path.write_text(rendered)
    if check and stale:
        names = ", ".join(map(str, stale))
        raise CoverLockError(f"tables are out of date in {names}: run 'coverlock bench tables'")


def _finish(
    out: Path,
    command: str,
    config: dict[str, Any],
    figures: Any,
    as_json: bool,
    summary: str | None = None,
) -> None:
    """Write the result file, and print its figures or, for people, their ``summary``."""
    write_result(out, command, config, figures)
    if as_json:
        click.echo(json.dumps({"file": str(out), "figures": figures}, indent=2))
    else:
        click.echo(summary or json.dumps(figures, indent=2))
        click.echo(f"result file: {out}", err=True)

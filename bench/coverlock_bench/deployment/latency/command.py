"""``coverlock bench latency``"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import click

from coverlock_bench.options import images_option
from coverlock_bench.photos import find_photos
from coverlock_bench.results import write_result
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.errors import CoverLockError, needs


@click.command()
@click.argument("bundles", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    help="Also a hash of this shape with random weights, such as dinov2-s; repeatable.",
)
@click.option("-w", "--watermark", default="steganogan", show_default=True, help="For --shape.")
@images_option
@click.option("--side", default=512, show_default=True, help="Of the JPEG files, in pixels.")
@click.option("--batch", "batches", multiple=True, type=int, default=(1, 8, 32), show_default=True)
@click.option(
    "--precision",
    "precisions",
    multiple=True,
    default=("fp32", "fp16", "int8"),
    show_default=True,
)
@click.option("--turns", default=5, show_default=True, help="How often everything takes its turn.")
@click.option("--rounds", default=1, show_default=True, help="Timings of a case in each turn.")
@click.option("--threads", default=1, show_default=True, help="Of every runtime.")
@click.option(
    "--clock",
    type=click.Choice(["cpu", "wall"]),
    default="cpu",
    show_default=True,
    help="Processor time is what a busy machine can measure; use wall on a quiet one.",
)
@click.option(
    "--save", type=click.Path(path_type=Path), help="Folder in which pytest-benchmark keeps runs."
)
@click.option("--compare", help="A run kept by --save: its number, or the path of its file.")
@click.option("--histogram", help="Path prefix of the histograms (SVG), one for each group.")
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="Result file.")
@json_option
def latency(
    bundles: tuple[Path, ...],
    shapes: tuple[str, ...],
    watermark: str,
    images: Path | None,
    side: int,
    batches: tuple[int, ...],
    precisions: tuple[str, ...],
    turns: int,
    rounds: int,
    threads: int,
    clock: str,
    save: Path | None,
    compare: str | None,
    histogram: str | None,
    out: Path,
    as_json: bool,
) -> None:
    """Time the stages of verification with BUNDLES, in every runtime and precision.

    Everything is compared with PyTorch in eager mode in the same run.
    """
    if not bundles and not shapes:
        raise CoverLockError("name a bundle (see 'coverlock export'), or a --shape")
    with needs("the latency suite", None, "bench,export"):
        from coverlock_bench.deployment.latency.run import run_suite
        from coverlock_bench.deployment.latency.subjects import (
            jpeg_files,
            shaped_subject,
            subject_of,
        )
    photos = find_photos(images)
    jpegs = jpeg_files(photos, max(batches), side)
    options = _benchmark_options(save, compare, histogram)
    with tempfile.TemporaryDirectory() as folder:
        subjects = [subject_of(Bundle.open(path), jpegs) for path in bundles]
        subjects += [
            shaped_subject(shape, watermark, photos, precisions, Path(folder) / shape, jpegs)
            for shape in shapes
        ]
        figures = run_suite(subjects, batches, precisions, turns, rounds, threads, clock, options)
    config = {
        "batches": list(batches),
        "side": side,
        "threads": threads,
        "turns": turns,
        "rounds": rounds,
        "random_weights": list(shapes),
        "photos": min(len(photos), max(batches)),
    }
    write_result(out, "bench latency", config, figures)
    if as_json:
        click.echo(json.dumps({"file": str(out), "figures": figures}, indent=2))
        return
    from coverlock_bench.deployment.tables import latency_summary

    click.echo(latency_summary(figures))
    for name, reason in figures["left_out"].items():
        click.echo(f"left out: {name}, since {reason}", err=True)
    click.echo(f"result file: {out}", err=True)


def _benchmark_options(save: Path | None, compare: str | None, histogram: str | None) -> list[str]:
    options: list[Any] = []
    if save:
        options += ["--benchmark-autosave", f"--benchmark-storage=file://{save.resolve()}"]
    if compare:
        options.append(f"--benchmark-compare={compare}")
    if histogram:
        options.append(f"--benchmark-histogram={Path(histogram).resolve()}")
    return options

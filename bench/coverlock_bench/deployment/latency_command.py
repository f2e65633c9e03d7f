"""``coverlock bench latency``"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from coverlock_bench.measurement import Measured, measurement, number_option
from coverlock_bench.photos import find_photos
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.errors import CoverLockError, needs


@measurement(
    "latency",
    "watermark images side",
    click.argument("bundles", nargs=-1, type=click.Path(path_type=Path)),
    click.option(
        "--shape",
        "shapes",
        multiple=True,
        help="Also a hash of this shape with random weights, such as dinov2-s, with the watermark "
        "of -w; repeatable.",
    ),
    click.option("--batch", "batches", multiple=True, type=int, default=(1, 8, 32)),
    click.option("--precision", "precisions", multiple=True, default=("fp32", "fp16", "int8")),
    number_option("--turns", 5, "How often everything takes its turn."),
    number_option("--rounds", 1, "Timings of a case in each turn."),
    number_option("--threads", 1, "Of every runtime."),
    click.option(
        "--clock",
        type=click.Choice(["cpu", "wall"]),
        default="cpu",
        show_default=True,
        help="Processor time is what a busy machine can measure; use wall on a quiet one.",
    ),
    click.option(
        "--save",
        type=click.Path(path_type=Path),
        help="Folder in which pytest-benchmark keeps runs.",
    ),
    click.option("--compare", help="A run kept by --save: its number, or the path of its file."),
    click.option("--histogram", help="Path prefix of the histograms (SVG), one for each group."),
)
def latency(
    bundles: tuple[Path, ...],
    shapes: tuple[str, ...],
    watermark: str,
    images: Path | None,
    side: int,
    batches: tuple[int, ...],
    precisions: tuple[str, ...],
    clock: str,
    save: Path | None,
    compare: str | None,
    histogram: str | None,
    **timing: int,
) -> Measured:
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
        from coverlock_bench.deployment.tables import LATENCY

    photos = find_photos(images)
    jpegs = jpeg_files(photos, max(batches), side)
    options = _benchmark_options(save, compare, histogram)
    with tempfile.TemporaryDirectory() as folder:
        subjects = [subject_of(Bundle.open(path), jpegs) for path in bundles]
        subjects += [
            shaped_subject(shape, watermark, photos, precisions, Path(folder) / shape, jpegs)
            for shape in shapes
        ]
        figures = run_suite(subjects, batches, precisions, clock=clock, extra=options, **timing)
    config = {"batches": list(batches), "side": side, **timing, "random_weights": list(shapes)}
    config["photos"] = min(len(photos), max(batches))
    notes = [f"left out: {name}, since {reason}" for name, reason in figures["left_out"].items()]
    return Measured(config, figures, LATENCY.markdown(figures), tuple(notes))


def _benchmark_options(save: Path | None, compare: str | None, histogram: str | None) -> list[str]:
    options: list[Any] = []
    if save:
        options += ["--benchmark-autosave", f"--benchmark-storage=file://{save.resolve()}"]
    if compare:
        options.append(f"--benchmark-compare={compare}")
    if histogram:
        options.append(f"--benchmark-histogram={Path(histogram).resolve()}")
    return options

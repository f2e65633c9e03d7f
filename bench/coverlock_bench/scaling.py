"""How many more pictures two processes verify than one."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from statistics import median
from typing import Any

import click

from coverlock_bench.photos import find_photos
from coverlock_bench.results import write_result
from coverlock_sdk.bundle import Bundle
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.scaling.job import VerificationJob
from coverlock_sdk.scaling.pool import verify_files


def pictures_per_second(job: VerificationJob, files: list[str], workers: int) -> float:
    """The rate between the first answers and the last: starting up is not counted."""
    rows = verify_files(job, files, workers)
    next(rows)
    start = time.perf_counter()
    # By now every worker has finished about one batch.
    remaining = len(files) - workers * job.max_batch
    for _ in rows:
        pass
    return remaining / (time.perf_counter() - start)


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--images",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of photos; otherwise the six of 'coverlock fetch photos'.",
)
@click.option("--count", default=320, show_default=True, help="Pictures; photos repeat if need be.")
@click.option("--workers", default=2, show_default=True)
@click.option("--batch", default=8, show_default=True)
@click.option("--turns", default=3, show_default=True)
@click.option("--runtime", default="cpu", show_default=True)
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="Result file.")
@json_option
def scaling(
    bundle: Path,
    images: Path | None,
    count: int,
    workers: int,
    batch: int,
    turns: int,
    runtime: str,
    out: Path,
    as_json: bool,
) -> None:
    """Compare several processes of one thread each with a single one, turn by turn."""
    photos = [str(photo) for photo in find_photos(images)]
    files = [photos[index % len(photos)] for index in range(count)]
    job = VerificationJob(str(bundle), "scaling", runtime=runtime, threads=1, max_batch=batch)
    rates: list[dict[str, Any]] = []
    for _ in range(turns):
        one, many = (pictures_per_second(job, files, number) for number in (1, workers))
        rates.append({"one": round(one, 3), "many": round(many, 3), "ratio": round(many / one, 3)})
    figures = {
        "ratio": median(turn["ratio"] for turn in rates),
        "turns": rates,
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
    }
    manifest = Bundle.open(bundle).manifest
    config = {
        "watermark": manifest.watermark,
        "hash": manifest.hash,
        "pictures": count,
        "workers": workers,
        "batch": batch,
        "runtime": runtime,
    }
    write_result(out, "bench scaling", config, figures)
    click.echo(json.dumps({"file": str(out), "figures": figures} if as_json else figures, indent=2))

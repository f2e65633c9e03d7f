"""How many more pictures two processes verify than one."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import click

from coverlock_bench.options import images_option
from coverlock_bench.photos import find_photos
from coverlock_bench.results import write_and_print
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.scaling.job import Row, VerificationJob
from coverlock_sdk.scaling.pool import verify_files
from coverlock_sdk.verifier.verifier import Verifier


class TimedJob(VerificationJob):
    """A job that notes the processor time of every picture."""

    def check(self, verifier: Verifier, files: Sequence[str]) -> list[Row]:
        """Verify, and divide the time among the pictures."""
        start = time.process_time()
        rows = super().check(verifier, files)
        seconds = (time.process_time() - start) / len(files)
        return [{**row, "seconds": seconds} for row in rows]


def measure(job: VerificationJob, files: list[str], workers: int) -> tuple[float, float]:
    """Pictures a second once everything has started, and processor seconds of a picture."""
    rows = verify_files(job, files, workers)
    seconds = [next(rows)["seconds"]]
    start = time.perf_counter()
    # By now every worker has finished about one batch.
    remaining = len(files) - workers * job.max_batch
    seconds += [row["seconds"] for row in rows]
    return remaining / (time.perf_counter() - start), median(seconds)


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@images_option
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
    """Compare several processes of one thread each with a single one, turn by turn.

    The speed ratio is of pictures a second, and means something on a quiet machine only. The cost
    ratio is of processor time a picture, and shows how far the processes hinder each other.
    """
    photos = [str(photo) for photo in find_photos(images)]
    files = [photos[index % len(photos)] for index in range(count)]
    job = TimedJob(str(bundle), "scaling", runtime=runtime, threads=1, max_batch=batch)
    turns_taken = [[measure(job, files, number) for number in (1, workers)] for _ in range(turns)]
    speed = [many[0] / one[0] for one, many in turns_taken]
    cost = [many[1] / one[1] for one, many in turns_taken]
    figures = {
        "speed_ratio": {"median": median(speed), "min": min(speed), "max": max(speed)},
        "cost_ratio": {"median": median(cost), "min": min(cost), "max": max(cost)},
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
    write_and_print(out, "bench scaling", config, figures, as_json)

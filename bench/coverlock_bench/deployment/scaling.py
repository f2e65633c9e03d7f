"""How many more pictures two processes verify, or mark, than one."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from coverlock_bench.deployment.throughput import SMALL, at_size, jpeg
from coverlock_sdk.bundles.trust import ANYONE
from coverlock_sdk.cli.marking import OF_BUNDLES, MarkingJob, Task
from coverlock_sdk.images.picture import MAX_PIXELS
from coverlock_sdk.scaling.job import OpenJob, Row, VerificationJob
from coverlock_sdk.scaling.pool import Job, in_processes

DISTINCT = 24
"""Pictures that are marked; they repeat."""


class TimedJob(VerificationJob):
    """A job that notes the processor time of every picture."""

    def check(self, worker: OpenJob, items: Sequence[str]) -> list[Row]:
        """Verify, and divide the time among the pictures."""
        start = time.process_time()
        return _timed(super().check(worker, items), start)


class TimedMarking(MarkingJob):
    """Likewise, marking pictures."""

    def check(self, worker: Any, items: Sequence[Task]) -> list[Row]:
        """Mark, and divide the time among the pictures."""
        start = time.process_time()
        return _timed(super().check(worker, items), start)


def measure(job: Job, items: Sequence[Any], workers: int) -> tuple[float, float]:
    """Pictures a second once everything has started, and processor seconds of a picture."""
    rows = in_processes(job, items, workers)
    seconds = [next(rows)["seconds"]]
    start = time.perf_counter()
    # By now every worker has finished about one batch.
    remaining = len(items) - workers * job.max_batch
    seconds += [row["seconds"] for row in rows]
    return remaining / (time.perf_counter() - start), median(seconds)


def scaling(
    bundle: Path, photos: list[Path], count: int, workers: int, batch: int, turns: int, runtime: str
) -> dict[str, Any]:
    """Ratios of verifying with ``workers`` processes to those of one, turn by turn."""
    files = [str(photos[index % len(photos)]) for index in range(count)]
    job = TimedJob(str(bundle), "scaling", runtime=runtime, threads=1, max_batch=batch)
    job = replace(job, isolate=False)  # where the time of a decoder is not counted
    return _compared(job, files, workers, turns)


def scaled_marking(
    bundle: Path, photos: list[Path], count: int, workers: int, batch: int, turns: int
) -> dict[str, Any]:
    """Likewise, from JPEG files of 640 x 480 to marked PNG files, as 'coverlock embed' does it."""
    opening = dict.fromkeys((*OF_BUNDLES, "key_file"), None) | {"bundle": bundle.resolve()}
    opening |= {"trust": ANYONE, "threads": 1, "max_pixels": MAX_PIXELS}
    job = TimedMarking(opening, overwrite=True, max_batch=batch)
    with tempfile.TemporaryDirectory() as folder:
        sources = []
        for number, photo in enumerate(photos[:DISTINCT]):
            sources.append(Path(folder, f"{number}.jpg"))
            sources[-1].write_bytes(jpeg(at_size(photo, SMALL)))
        tasks = [
            Task(sources[number % len(sources)], Path(folder, f"{number}.png"), "scaling", False)
            for number in range(count)
        ]
        return _compared(job, tasks, workers, turns)


def _compared(job: Job, items: Sequence[Any], workers: int, turns: int) -> dict[str, Any]:
    taken = [[measure(job, items, number) for number in (1, workers)] for _ in range(turns)]
    speed = [many[0] / one[0] for one, many in taken]
    cost = [many[1] / one[1] for one, many in taken]
    return {
        "speed_ratio": {"median": median(speed), "min": min(speed), "max": max(speed)},
        "cost_ratio": {"median": median(cost), "min": min(cost), "max": max(cost)},
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
    }


def _timed(rows: list[Row], start: float) -> list[Row]:
    seconds = (time.process_time() - start) / len(rows)
    return [{**row, "seconds": seconds} for row in rows]

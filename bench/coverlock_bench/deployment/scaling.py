"""How many more pictures two processes verify than one."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from coverlock_sdk.scaling.job import OpenJob, Row, VerificationJob
from coverlock_sdk.scaling.pool import in_processes


class TimedJob(VerificationJob):
    """A job that notes the processor time of every picture."""

    def check(self, worker: OpenJob, items: Sequence[str]) -> list[Row]:
        """Verify, and divide the time among the pictures."""
        start = time.process_time()
        rows = super().check(worker, items)
        seconds = (time.process_time() - start) / len(items)
        return [{**row, "seconds": seconds} for row in rows]


def measure(job: VerificationJob, files: list[str], workers: int) -> tuple[float, float]:
    """Pictures a second once everything has started, and processor seconds of a picture."""
    rows = in_processes(job, files, workers)
    seconds = [next(rows)["seconds"]]
    start = time.perf_counter()
    # By now every worker has finished about one batch.
    remaining = len(files) - workers * job.max_batch
    seconds += [row["seconds"] for row in rows]
    return remaining / (time.perf_counter() - start), median(seconds)


def scaling(
    bundle: Path, photos: list[Path], count: int, workers: int, batch: int, turns: int, runtime: str
) -> dict[str, Any]:
    """Ratios of speed and cost of ``workers`` processes to those of one, turn by turn."""
    files = [str(photos[index % len(photos)]) for index in range(count)]
    job = TimedJob(str(bundle), "scaling", runtime=runtime, threads=1, max_batch=batch)
    job = replace(job, isolate=False)  # where the time of a decoder is not counted
    turns_taken = [[measure(job, files, number) for number in (1, workers)] for _ in range(turns)]
    speed = [many[0] / one[0] for one, many in turns_taken]
    cost = [many[1] / one[1] for one, many in turns_taken]
    return {
        "speed_ratio": {"median": median(speed), "min": min(speed), "max": max(speed)},
        "cost_ratio": {"median": median(cost), "min": min(cost), "max": max(cost)},
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
    }

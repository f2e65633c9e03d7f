"""``python -m experiments scale``: what the driver of a job on Ray costs, with judging left out.

Rows of Parquet go through the plan and are read here, where actors would read them. The job is
stopped half-way, resumed, and run once more when all is done. Then a hundred times as many rows are
only planned.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click

from coverlock_bench.measurement import FOLDER, Measured, measurement, number_option
from coverlock_sdk.errors import needs
from coverlock_sdk.scaling.job import Row, VerificationJob

PICTURES = 2000
"""Names that the rows repeat."""
ALL = 100
"""Files of as many rows in the largest plan."""
VERDICT: Row = {
    "status": "accepted",
    "p_value": 1e-12,
    "matches": 30,
    "bits": 30,
    "fpr": 1e-6,
    "rule": "soft",
    "agreement": 0.95,
    "floor": 0.8,
    "frame": {"side": 1.0, "x": 0.5, "y": 0.5, "turn": 0.0, "aspect": 1.0},
}
"""What every picture is said to be."""


def job_without_judging(bundle: Path, rows: int) -> dict[str, Any]:
    """Seconds and megabytes of the driver's process in each part."""
    with needs("this study", "Ray", "ray"):
        from coverlock_plugins.ray_cluster import actors
        from coverlock_plugins.ray_cluster.inputs import find_shards

    def judging(part: float) -> Callable[..., Iterator[tuple[int, list[Row]]]]:
        def judged(job: Any, left: Sequence[Any], most: Any) -> Iterator[tuple[int, list[Row]]]:
            for number, shard in left[: int(part * len(left))]:
                yield number, [{**VERDICT, "file": item.file, "id": "a"} for item in shard.items()]

        return judged

    job = VerificationJob(str(bundle), "a", runtime="cpu", trust="any")
    figures: dict[str, Any] = {"megabytes_at_first": peak()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "all").mkdir()
        first = write_rows(folder / "rows.parquet", rows)
        run = partial(actors.verify_on_ray, job, [str(first)], folder / "out")
        for name, part in (("first half", 0.5), ("second half", 1.0), ("nothing left", 1.0)):
            with patch.object(actors, "_judged", judging(part)):
                counts, figures[name] = timed(run)
        assert counts["accepted"] == rows
        for number in range(ALL):
            os.link(first, folder / "all" / f"{number:03}.parquet")
        shards, planned = timed(partial(find_shards, [str(folder / "all")], True))
        figures["plan of all"] = {"rows": ALL * rows, "shards": len(shards), **planned}
    return figures


def write_rows(file: Path, rows: int) -> Path:
    """Write Parquet that names pictures, a part at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    part = 65_536
    schema = pa.schema([("file", pa.string()), ("path", pa.string())])
    with pq.ParquetWriter(file, schema) as writer:
        for start in range(0, rows, part):
            numbers = range(start, min(rows, start + part))
            names = [[str(n) for n in numbers], [f"{n % PICTURES:05}.jpg" for n in numbers]]
            writer.write_table(pa.table(names, schema))
    return file


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What work returns; its seconds by the clock and of the processor, and the most megabytes."""
    clock, processor = time.perf_counter(), time.process_time()
    done = work()
    return done, {
        "seconds": round(time.perf_counter() - clock, 2),
        "processor_seconds": round(time.process_time() - processor, 2),
        "most_megabytes": peak(),
    }


def peak() -> int:
    """The most megabytes that this process has had."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


@measurement(
    "experiments scale",
    click.argument("bundle", type=FOLDER),
    number_option("--rows", 1_000_000, "Rows of the job."),
)
def scale(bundle: Path, rows: int) -> Measured:
    """Run a job of many rows without its judging: time and memory of the driver on Ray."""
    return Measured({"rows": rows}, job_without_judging(bundle, rows))

"""The tables of what measures a deployment: latency, throughput, the service, GPU hosts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coverlock_bench.tables import RATIO, Row, Table, below


def _networks(figures: Any) -> Iterator[Row]:
    """The timings of networks alone, each with that of the same runtime from end to end."""
    for name, subject in figures["subjects"].items():
        timed = {
            (row["stage"], row["batch"], row["runtime"], row["precision"]): row
            for row in subject["rows"]
        }
        for (stage, *runner), row in timed.items():
            if stage == "network":
                whole = timed["end to end", runner[0], runner[1], runner[2]]["ratio_to_torch"]
                yield {**row, "subject": name, "whole": whole}


LATENCY = Table(
    "Every runtime against PyTorch",
    _networks,
    (
        ("watermark+hash", "{subject}"),
        ("batch", "{batch}"),
        ("runtime", "{runtime} {precision}"),
        ("end to end", below("whole", RATIO)),
        ("network alone", below("ratio_to_torch", RATIO)),
        ("of matmul peak", "{of_matmul_peak:%0} %"),
    ),
)


def _throughput(figures: Any) -> Iterator[Row]:
    """One row for each way to do a thing; ratios are to the first of its kind."""
    for run in figures:
        for what, ways in run["figures"].items():
            yield from ({**run, "what": what, "way": way, **timed} for way, timed in ways.items())


THROUGHPUT = Table(
    "Verifying and embedding on one core",
    _throughput,
    (
        ("watermark+hash", "{watermark}+{hash}"),
        ("what", "{what}"),
        ("how", "{way}"),
        ("processor time a picture", "{seconds:.3f} s"),
        ("pictures a second, to the first", "{ratio:.2f} x"),
    ),
)

LARGE_VERDICTS = Table(
    "Verdicts on large JPEG files against those on all of their pixels",
    lambda figures: (
        {**row, "kind": "enlarged photos" if row["enlarged"] else "photos as they are"}
        for row in figures
    ),
    (
        ("megapixels", "{megapixels}"),
        ("", "{kind}"),
        ("marked pictures", "{pictures}"),
        ("verdicts", "{verdicts}"),
        ("equal", "{equal}"),
        ("accepted", "{accepted}"),
        ("decoded twice", "{decoded_twice}"),
        ("bits that differ", "{bits}"),
    ),
)


def _loads(figures: Any) -> Iterator[Row]:
    """One row for each kind of load, with what was answered and what was refused."""
    for load in ("steady", "overload"):
        statuses = figures[load]["statuses"]
        asked, answered = sum(statuses.values()), statuses.get("200", 0)
        yield {**figures[load], "load": load, "answered": answered, "refused": asked - answered}


SERVICE = Table(
    "The service under load",
    _loads,
    (
        ("load", "{load}"),
        ("answered", "{answered:,}"),
        ("refused at once", "{refused:,}"),
        ("a second", "{answered_per_second:.0f}"),
        ("median", "{p50_ms:.0f} ms"),
        ("99 % within", "{p99_ms:.0f} ms"),
    ),
)

FUZZING = Table(
    "Damaged inputs for every reader of files",
    list,
    (
        ("reader", "{reader}"),
        ("inputs", "{inputs:,}"),
        ("refused with an error of ours", "{refused:,}"),
        ("findings", "{findings}"),
        ("slowest", "{slowest_s:.2f} s"),
        ("most memory", "{most_mb} MB"),
    ),
)

SIEGE = Table(
    "What other callers notice of an attack",
    lambda figures: ({**row, "attack": name} for name, row in figures.items() if "asked" in row),
    (
        ("attack", "{attack}"),
        ("asked", "{asked}"),
        ("answered within 2 s", "{in_time:%0} %"),
        ("median", "{p50_s|never:.2f} s"),
        ("slowest", "{worst_s|never:.2f} s"),
    ),
)

GPU_STEPS = Table(
    "What was run on a GPU host",
    lambda figures: figures["steps"],
    (("step", "{step}"), ("", "{status}"), ("what it said", "{detail}")),
)

"""``coverlock bench latency``: the command, its figures and its table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import numpy as np

from coverlock_bench.latency.cases import REFERENCE, Cases
from coverlock_bench.latency.subjects import Subject, subject_of
from coverlock_bench.measurement import (
    Measured,
    images_option,
    measurement,
    number_option,
    side_option,
)
from coverlock_bench.photos import find_photos, jpeg_files
from coverlock_bench.tables import Row, Table
from coverlock_sdk.arrays import Floats
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.cli.options import Trusted, chosen_keyring, key_option, trust_option
from coverlock_sdk.errors import needs

CLOCKS = {"cpu": "time.process_time", "wall": "time.perf_counter"}


@measurement(
    "bench latency",
    images_option,
    side_option,
    click.argument("bundles", nargs=-1, required=True, type=click.Path(path_type=Path)),
    click.option(
        "--batch",
        "batches",
        multiple=True,
        type=int,
        default=(1, 8, 32),
        help="Pictures per batch. Repeatable.",
    ),
    click.option(
        "--precision",
        "precisions",
        multiple=True,
        default=("fp32", "fp16", "int8"),
        help="Precision of the graph. Repeatable.",
    ),
    number_option("--turns", 5, "Passes over all cases."),
    number_option("--threads", 1, "Threads of every runtime."),
    click.option(
        "--clock",
        type=click.Choice(list(CLOCKS)),
        default="cpu",
        show_default=True,
        help="Processor time is reliable on a busy machine; use wall on a quiet one.",
    ),
    key_option,
    trust_option,
)
def latency(
    bundles: tuple[Path, ...],
    key_file: Path | None,
    trust: Trusted,
    images: Path | None,
    side: int,
    batches: tuple[int, ...],
    precisions: tuple[str, ...],
    clock: str,
    **timing: int,
) -> Measured:
    """Time the stages of verification with BUNDLES, in every runtime and precision.

    Each figure is compared with PyTorch in eager mode, timed in the same run.
    """
    photos = find_photos(images)
    jpegs = jpeg_files(photos, max(batches), side)
    key = chosen_keyring(key_file)
    subjects = [subject_of(Bundle.open(path, trust), jpegs, key) for path in bundles]
    figures = run_suite(subjects, batches, precisions, clock=clock, **timing)
    config = {"batches": list(batches), "side": side, **timing}
    config["photos"] = min(len(photos), max(batches))
    notes = [f"left out: {name}, because {reason}" for name, reason in figures["left_out"].items()]
    return Measured(config, figures, LATENCY.markdown(figures), tuple(notes))


def run_suite(
    subjects: Sequence[Subject],
    batches: tuple[int, ...],
    precisions: tuple[str, ...],
    turns: int,
    threads: int,
    clock: str,
) -> dict[str, Any]:
    """Time everything about ``subjects``."""
    with needs("the latency suite", None, "bench,export"):
        import pytest_benchmark  # noqa: F401

        from coverlock_bench.latency.suite import run_cases
    with closing(Cases(batches, precisions, threads)) as cases:
        for subject in subjects:
            cases.add(subject)
        processor, seconds = run_cases(cases.all, turns, CLOCKS[clock])
    return {
        "machine": {key: processor.get(key) for key in ("brand_raw", "arch", "count")},
        "clock": clock,
        "subjects": {each.name: subject_figures(each, cases, seconds) for each in subjects},
        "left_out": cases.left_out,
    }


def subject_figures(subject: Subject, cases: Cases, seconds: Floats) -> dict[str, Any]:
    """Medians by stage, batch, runtime and precision, with ratios to PyTorch turn by turn."""
    timed = [pair for pair in zip(cases.all, seconds.T, strict=True) if pair[0].subject is subject]
    torch = {
        (case.stage, case.batch): turns
        for case, turns in timed
        if (case.runtime, case.precision) == REFERENCE
    }
    rows = []
    for case, turns in timed:
        row = {
            "stage": case.stage,
            "batch": case.batch,
            "runtime": case.runtime,
            "precision": case.precision,
            "milliseconds": round(1000 * float(np.median(turns)), 3),
        }
        if (case.stage, case.batch) in torch:
            ratios = torch[case.stage, case.batch] / turns
            summary = {"median": np.median(ratios), "min": ratios.min(), "max": ratios.max()}
            row["ratio_to_torch"] = {name: round(float(r), 3) for name, r in summary.items()}
        rows.append(row)
    return {
        "gflop": subject.gflop,
        "jpeg_bytes": round(float(np.median([len(jpeg) for jpeg in subject.jpegs]))),
        "runtimes": cases.runtimes[subject.name],
        "rows": sorted(rows, key=lambda row: row["batch"]),
    }


def _whole(figures: Any) -> Iterator[Row]:
    """The timings from a JPEG file to a verdict, and from a JPEG file to a marked picture."""
    for name, subject in figures["subjects"].items():
        for row in subject["rows"]:
            if row["stage"] in ("end to end", "embed"):
                speed = 1000 * row["batch"] / row["milliseconds"]
                what = "verify" if row["stage"] == "end to end" else "embed"
                gflop = sum(subject["gflop"].values()) if what == "verify" else None
                yield {**row, "subject": name, "what": what, "speed": speed, "gflop": gflop}


LATENCY = Table(
    "Verifying and embedding on one machine, compared with PyTorch",
    _whole,
    (
        ("watermark+hash", "{subject}"),
        ("", "{what}"),
        ("batch", "{batch}"),
        ("GFLOP a picture", "{gflop|-:.2f}"),
        ("runtime", "{runtime} {precision}"),
        ("per batch", "{milliseconds:.1f} ms"),
        ("pictures per second", "{speed:.1f}"),
        ("PyTorch's time to this", "{ratio_to_torch/median|-:.2f} x"),
    ),
)

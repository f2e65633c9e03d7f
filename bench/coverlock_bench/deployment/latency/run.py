"""Running the suite, and what its figures say."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable
from statistics import median
from typing import Any

import numpy as np

from coverlock_bench.deployment.latency.cases import REFERENCE, Case, Cases
from coverlock_bench.deployment.latency.subjects import Subject
from coverlock_bench.timing import seconds_in_turns
from coverlock_sdk.arrays import Floats

CLOCKS = {"cpu": time.process_time, "wall": time.perf_counter}


def run_suite(
    subjects: Iterable[Subject],
    batches: tuple[int, ...],
    precisions: tuple[str, ...],
    turns: int,
    threads: int,
    clock: str,
) -> dict[str, Any]:
    """Time everything about ``subjects``."""
    subjects = list(subjects)
    cases = Cases(batches, precisions, threads)
    try:
        for subject in subjects:
            cases.add(subject)
        works = [case.work for case in cases.all]
        seconds = seconds_in_turns(works, turns, clock=CLOCKS[clock], label="turns")
    finally:
        cases.close()
    timed = list(zip(cases.all, seconds.T, strict=True))
    return {
        "machine": {"processor": platform.processor(), "cores": os.cpu_count()},
        "clock": clock,
        "subjects": {each.name: subject_figures(each, timed) for each in subjects},
        "left_out": cases.left_out,
    }


def subject_figures(subject: Subject, timed: list[tuple[Case, Floats]]) -> dict[str, Any]:
    """Medians by stage, batch, runtime and precision, with ratios to PyTorch turn by turn."""
    own = [(case, seconds) for case, seconds in timed if case.subject == subject.name]
    references = {
        (case.stage, case.batch): seconds for case, seconds in own if case.runner == REFERENCE
    }
    rows = []
    for case, seconds in sorted(own, key=lambda each: (each[0].stage, each[0].batch)):
        row: dict[str, Any] = {
            "stage": case.stage,
            "batch": case.batch,
            "runtime": case.runner[0],
            "precision": case.runner[1],
            "milliseconds": round(1000 * float(np.median(seconds)), 3),
        }
        if (case.stage, case.batch) in references:
            ratios = references[case.stage, case.batch] / seconds
            row["ratio_to_torch"] = {
                "median": round(float(np.median(ratios)), 3),
                "min": round(float(ratios.min()), 3),
                "max": round(float(ratios.max()), 3),
            }
        rows.append(row)
    return {
        "gflop": subject.gflop,
        "jpeg_bytes": round(median(map(len, subject.jpegs))),
        "runtimes": {" ".join(case.runner): case.info for case, _ in own if case.info},
        "rows": rows,
    }

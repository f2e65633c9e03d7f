"""Running the suite, and what its figures say."""

from __future__ import annotations

import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from coverlock_bench.deployment.latency.cases import REFERENCE, Cases
from coverlock_bench.deployment.latency.subjects import Subject
from coverlock_sdk.errors import CoverLockError

CLOCKS = {"cpu": "time.process_time", "wall": "time.perf_counter"}


class Plan:
    """A pytest plugin that hands the cases to the suite, turn by turn."""

    def __init__(self, cases: Cases, turns: int, rounds: int) -> None:
        self.cases = cases
        self.turns = turns
        self.rounds = rounds

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Every case once in each turn, so that a slow minute of the machine hits all alike."""
        planned = [(case, turn) for turn in range(self.turns) for case in self.cases.all]
        names = [f"{case.id}-turn{turn}" for case, turn in planned]
        metafunc.parametrize(("case", "turn"), planned, ids=names)
        metafunc.parametrize("rounds", [self.rounds], ids=[""])


def run_suite(
    subjects: Iterable[Subject],
    batches: tuple[int, ...],
    precisions: tuple[str, ...],
    turns: int,
    rounds: int,
    threads: int,
    clock: str,
) -> dict[str, Any]:
    """Time everything about ``subjects``."""
    subjects = list(subjects)
    cases = Cases(batches, precisions, threads)
    try:
        for subject in subjects:
            cases.add(subject)
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "benchmark.json"
            code = pytest.main(
                [
                    "--pyargs",
                    "coverlock_bench.deployment.latency.test_latency",
                    *("-q", "-p", "no:cacheprovider", "-m", "", "--no-header"),
                    *("-c", os.devnull, f"--rootdir={folder}"),
                    f"--benchmark-timer={CLOCKS[clock]}",
                    f"--benchmark-json={out}",
                    "--benchmark-columns=min,median,iqr,rounds",
                ],
                plugins=[Plan(cases, turns, rounds)],
            )
            if code != pytest.ExitCode.OK:
                raise CoverLockError(f"the latency suite failed (pytest's exit code {int(code)})")
            document = json.loads(out.read_text())
    finally:
        cases.close()
    machine = document["machine_info"]["cpu"]
    figures = {each.name: subject_figures(each, document["benchmarks"]) for each in subjects}
    return {
        "machine": {key: machine.get(key) for key in ("brand_raw", "arch", "count")},
        "clock": clock,
        "subjects": figures,
        "left_out": cases.left_out,
    }


def subject_figures(subject: Subject, benchmarks: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians by stage, batch, runtime and precision, with ratios to PyTorch turn by turn."""
    by_turn: dict[tuple[str, int], dict[tuple[str, str], dict[int, float]]] = defaultdict(dict)
    info: dict[tuple[str, str], dict[str, Any]] = {}
    for result in benchmarks:
        extra = result["extra_info"]
        if extra["subject"] != subject.name:
            continue
        who = (extra["runtime"], extra["precision"])
        times = by_turn[extra["stage"], extra["batch"]].setdefault(who, {})
        times[extra["turn"]] = result["stats"]["median"]
        if "providers" in extra:
            info[who] = {"providers": extra["providers"], "graph": extra["graph"]}
    rows = []
    for (stage, batch), runners in by_turn.items():
        reference = runners.get(REFERENCE)
        for (runtime, precision), turns in runners.items():
            row = {
                "stage": stage,
                "batch": batch,
                "runtime": runtime,
                "precision": precision,
                "milliseconds": round(1000 * median(turns.values()), 3),
            }
            if reference:
                ratios = [reference[turn] / seconds for turn, seconds in turns.items()]
                row["ratio_to_torch"] = {
                    "median": round(median(ratios), 3),
                    "min": round(min(ratios), 3),
                    "max": round(max(ratios), 3),
                }
            rows.append(row)
    return {
        "gflop": subject.gflop,
        "jpeg_bytes": round(median(map(len, subject.jpegs))),
        "runtimes": {f"{r} {p}": details for (r, p), details in info.items()},
        "rows": rows,
    }

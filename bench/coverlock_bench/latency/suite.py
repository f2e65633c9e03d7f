"""The suite that pytest-benchmark runs: every case once in each turn."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coverlock_bench.latency.cases import Case
from coverlock_sdk import CoverLockError
from coverlock_sdk.arrays import Floats


class TakingTurns:
    """A pytest plugin that alternates the cases, so that a slow minute affects all of them."""

    def __init__(self, cases: Sequence[Case], turns: int) -> None:
        self.cases = cases
        self.turns = turns

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrize ``test_latency``, the cases of one turn after those of another."""
        planned = [
            pytest.param(turn, column, case, id=f"{turn}-{case}")
            for turn in range(self.turns)
            for column, case in enumerate(self.cases)
        ]
        metafunc.parametrize(("turn", "column", "case"), planned)


def test_latency(benchmark: Any, turn: int, column: int, case: Case) -> None:
    """Time one case, once in every turn."""
    benchmark.extra_info.update(turn=turn, column=column)
    benchmark.pedantic(case.work, warmup_rounds=1 if turn == 0 else 0)


def run_cases(cases: Sequence[Case], turns: int, timer: str) -> tuple[dict[str, Any], Floats]:
    """What pytest-benchmark reports about the processor, and seconds (turns, cases)."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "benchmark.json"
        arguments = [
            *("--pyargs", __name__, "-q", "--capture=no", "--no-header", "-p", "no:cacheprovider"),
            *("-c", os.devnull, f"--rootdir={folder}"),
            *("--benchmark-quiet", f"--benchmark-timer={timer}", f"--benchmark-json={out}"),
        ]
        # Standard output is reserved for the result.
        with redirect_stdout(sys.stderr):
            code = pytest.main(arguments, plugins=[TakingTurns(cases, turns)])
        if code != pytest.ExitCode.OK:
            raise CoverLockError(f"the latency suite failed (pytest's exit code {int(code)})")
        document = json.loads(out.read_text())
    seconds = np.zeros((turns, len(cases)))
    for timed in document["benchmarks"]:
        place = timed["extra_info"]
        seconds[place["turn"], place["column"]] = timed["stats"]["median"]
    return document["machine_info"]["cpu"], seconds

"""Readers in processes of their own, which may crash, hang or want too much memory."""

import json
import os
import resource
import tempfile
import time
import traceback
import warnings
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from coverlock_sdk.errors import CoverLockError
from tests.fuzz.readers import READERS, seed_of

SECONDS = 5.0
MEMORY = 1_000_000_000
SPAWN = get_context("spawn")


def run_reader(
    name: str, first: int, count: int, seed: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run a reader in processes, the next one after the input that ended the last."""
    # Arrow's own allocator reserves a gigabyte at once.
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    figure: dict[str, Any] = {"inputs": 0, "refused": 0, "slowest_s": 0.0, "most_mb": 0}
    position, end = first, first + count
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "findings"
        found.touch()
        while position < end:
            state = SPAWN.RawArray("d", [position, 0, 0, 0])
            given = READERS[name], name, position, end, seed, state, found
            process = SPAWN.Process(target=run_here, args=given)
            process.start()
            hung = _wait(process, state)
            reached, refused, slowest, megabytes = state
            if reached < end:
                how = "hang" if hung else f"crash, perhaps for want of memory ({process.exitcode})"
                _note(found, int(reached), problem=how)
                reached += 1
            figure["inputs"] += int(reached) - position
            figure["refused"] += int(refused)
            figure["slowest_s"] = max(figure["slowest_s"], round(slowest, 2))
            figure["most_mb"] = max(figure["most_mb"], int(megabytes))
            position = int(reached)
        lines = found.read_text().splitlines()
    return figure, [{"reader": name, **json.loads(line)} for line in lines]


def _wait(process: BaseProcess, state: Any) -> bool:
    """Wait for a process, and end it if it notes nothing new for too long: whether it did."""
    noted, patience = list(state), 600.0  # until it is up
    while True:
        process.join(patience)
        if process.exitcode is not None:
            return False
        if list(state) == noted:
            process.kill()
            process.join()
            return True
        noted, patience = list(state), 12 * SECONDS  # by the clock of a machine that may be busy


def _note(found: Path, number: int, **problem: str) -> None:
    with found.open("a") as findings:
        findings.write(json.dumps({"number": number, **problem}) + "\n")


def run_here(
    make: Any, name: str, first: int, end: int, seed: int, state: Any, found: Path
) -> None:
    """Run inputs in this process, and note what went wrong.

    ``state`` has the next input, how many were refused, the slowest one's seconds, and megabytes.
    """
    warnings.simplefilter("ignore")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries print what they think of files
    with tempfile.TemporaryDirectory() as folder:
        reader = make(Path(folder))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        for number in range(first, end):
            state[0] = number
            start = time.process_time()
            try:
                reader(seed_of(name, number, seed))
            except CoverLockError:
                state[1] += 1
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{Path(where.filename).name}:{where.lineno}"
                _note(found, number, problem=f"{type(error).__name__}: {error}"[:300], where=place)
            seconds = time.process_time() - start
            if seconds > SECONDS:
                _note(found, number, problem=f"took {seconds:.1f} s")
            state[2] = max(state[2], seconds)
            state[3] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000
        state[0] = end

"""Run strange inputs through every reader and write down what happened.

python -m tests.fuzz --inputs 1000000 --seed 0 --out bench/results/fuzz.json

The inputs run in a process of their own with little memory. One that crashes, hangs or takes too
much is a finding; the process is started anew and goes on with the next input. Any finding can be
repeated: --only READER --first NUMBER --inputs 1.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import queue
import resource
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from coverlock_sdk.errors import CoverLockError
from tests.fuzz.readers import READERS, seed_of

NUMBER = struct.Struct(">Q")
SECONDS = 5.0
MEMORY = 1_000_000_000

SHARES = {"pictures": 2, "parquet": 0.3, "serials": 0.5, "bundles": 0.3, "HTTP": 0.3}
"""Inputs relative to the other readers."""


def main() -> int:
    """Parse the command line, run, and report."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000, help="of all readers together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one reader")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--out", type=Path, help="file for the result")
    parser.add_argument("--progress", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.progress:
        run_here(options.only, options.first, options.inputs, options.seed, options.progress)
        return 0
    chosen = [options.only] if options.only else list(READERS)
    result = run(chosen, options.inputs, options.seed, options.first, options.jobs, options.out)
    print(json.dumps({name: result[name] for name in ("inputs", "findings")}, indent=2))
    return 1 if result["findings"] else 0


def run(
    chosen: list[str], inputs: int, seed: int, first: int, jobs: int, out: Path | None
) -> dict[str, Any]:
    """Share ``inputs`` out among readers, run ``jobs`` of them at a time, and write the result.

    The file is written anew whenever a reader is done.
    """
    total = sum(SHARES.get(name, 1) for name in chosen)
    start = time.monotonic()
    result: dict[str, Any] = {"inputs": 0, "findings": [], "readers": {}, "seed": seed}
    result |= {"revision": _revision(), "python": platform.python_version()}
    result |= {"limits": {"seconds": SECONDS, "bytes": MEMORY}}

    def one(name: str) -> tuple[str, dict[str, Any], list[dict[str, Any]]]:
        count = max(1, math.ceil(inputs * SHARES.get(name, 1) / total))
        return (name, *run_reader(name, first, count, seed))

    with ThreadPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(one, name) for name in chosen]):
            name, figure, found = future.result()
            print(name, figure, f"{len(found)} findings", file=sys.stderr, flush=True)
            result["readers"][name] = figure
            result["findings"] += found
            result["inputs"] += figure["inputs"]
            result["hours"] = round((time.monotonic() - start) / 3600, 3)
            result["made"] = datetime.now(timezone.utc).isoformat(timespec="seconds")
            if out:
                out.write_text(json.dumps(result, indent=2) + "\n")
    return result


def _revision() -> str | None:
    command = ["git", "rev-parse", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent)
    return found.stdout.strip() or None


def run_reader(
    name: str, first: int, count: int, seed: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run a reader in processes, the next one after the input that ended the last."""
    findings: list[dict[str, Any]] = []
    figure: dict[str, Any] = {"inputs": 0, "refused": 0, "slowest_s": 0.0, "most_mb": 0}
    position, end = first, first + count
    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder) / "progress"
        while position < end:
            progress.write_bytes(NUMBER.pack(position))
            process = _child(name, position, end - position, seed, progress)
            lines = Lines(process)
            while (line := lines.next()) is not None:
                position = _take(json.loads(line), figure, findings, name)
            ended = lines.closed
            process.kill()
            code = process.wait()
            if position < end:
                how = f"crash, perhaps for want of memory ({code})" if ended else "hang"
                [last] = NUMBER.unpack(progress.read_bytes())
                findings.append({"reader": name, "number": last, "problem": how})
                figure["inputs"] += last + 1 - position
                position = last + 1
    return figure, findings


def _take(
    report: dict[str, Any], figure: dict[str, Any], findings: list[dict[str, Any]], name: str
) -> int:
    for problem in report["findings"]:
        findings.append({"reader": name, **problem})
    figure["inputs"] += report["inputs"]
    figure["refused"] += report["refused"]
    figure["slowest_s"] = max(figure["slowest_s"], round(report["slowest_s"], 2))
    figure["most_mb"] = max(figure["most_mb"], report["mb"])
    next_input: int = report["next"]
    return next_input


def _child(name: str, first: int, count: int, seed: int, progress: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.fuzz", "--progress", str(progress), "--only", name]
    command += ["--first", str(first), "--inputs", str(count), "--seed", str(seed)]
    # Arrow's own allocator reserves a gigabyte at once; libraries print what they think of files.
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )


class Lines:
    """What a process prints."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.closed = False
        self._patience = 600.0  # until it is up
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._collect, args=[process.stdout], daemon=True).start()

    def _collect(self, stream: Any) -> None:
        for line in stream:
            self._lines.put(line)
        self._lines.put(None)

    def next(self) -> str | None:
        """The next line; none when the process ended or was silent for too long."""
        try:
            line = self._lines.get(timeout=self._patience)
            self._patience = 12 * SECONDS  # by the clock of a machine that may be busy
        except queue.Empty:
            return None
        self.closed = line is None
        return line


def run_here(name: str, first: int, count: int, seed: int, progress: Path) -> None:
    """Run inputs in this process, noting each before it runs, and report every second."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder, progress.open("r+b", buffering=0) as noted:
        reader = READERS[name](Path(folder))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        report = Report(first)
        report.send()  # this process is up
        for number in range(first, first + count):
            os.pwrite(noted.fileno(), NUMBER.pack(number), 0)
            start = time.process_time()
            try:
                reader(seed_of(name, number, seed))
            except CoverLockError:
                report.refused += 1
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                text = f"{type(error).__name__}: {error}"[:300]
                place = f"{Path(where.filename).name}:{where.lineno}"
                report.findings.append({"number": number, "problem": text, "where": place})
            seconds = time.process_time() - start
            if seconds > SECONDS:
                report.findings.append({"number": number, "problem": f"took {seconds:.1f} s"})
            report.note(number, seconds)
        report.send()


class Report:
    """What happened since the last report."""

    def __init__(self, first: int) -> None:
        self.next = first
        self._clear()

    def _clear(self) -> None:
        self.inputs, self.refused, self.slowest = 0, 0, 0.0
        self.findings: list[dict[str, Any]] = []
        self.sent = time.monotonic()

    def note(self, number: int, seconds: float) -> None:
        """Count an input; report once a second."""
        self.inputs += 1
        self.next = number + 1
        self.slowest = max(self.slowest, seconds)
        if self.findings or time.monotonic() - self.sent > 1:
            self.send()

    def send(self) -> None:
        """Report to the parent."""
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000
        report = {"inputs": self.inputs, "refused": self.refused, "slowest_s": self.slowest}
        report |= {"findings": self.findings, "mb": megabytes, "next": self.next}
        print(json.dumps(report), flush=True)
        self._clear()


if __name__ == "__main__":
    sys.exit(main())

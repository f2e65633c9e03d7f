"""Run strange inputs through every reader and write down what happened.

python -m tests.fuzz --inputs 1000000 --seed 0 --out bench/results/fuzz.json

The inputs run in a process of their own with little memory. One that crashes, hangs or takes too
much is a finding; the process is started anew and goes on with the next input. Any finding can be
repeated: --only READER --first NUMBER --inputs 1.
"""

import argparse
import json
import math
import os
import platform
import resource
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from coverlock_sdk.errors import CoverLockError
from tests.fuzz.readers import READERS, seed_of

NOTE = struct.Struct(">QQdQ")
"""The next input; inputs refused, the slowest one's seconds and most megabytes so far."""
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
    figure: dict[str, Any] = {"inputs": 0, "refused": 0, "slowest_s": 0.0, "most_mb": 0}
    position, end = first, first + count
    with tempfile.TemporaryDirectory() as folder:
        progress, found = Path(folder) / "progress", Path(folder) / "findings"
        while position < end:
            progress.write_bytes(NOTE.pack(position, 0, 0.0, 0))
            process = _child(name, position, end - position, seed, progress)
            hung = _wait(process, progress)
            reached, refused, slowest, megabytes = NOTE.unpack(progress.read_bytes())
            if reached < end:
                how = "hang" if hung else f"crash, perhaps for want of memory ({process.wait()})"
                with found.open("a") as findings:
                    findings.write(json.dumps({"number": reached, "problem": how}) + "\n")
                reached += 1
            figure["inputs"] += reached - position
            figure["refused"] += refused
            figure["slowest_s"] = max(figure["slowest_s"], round(slowest, 2))
            figure["most_mb"] = max(figure["most_mb"], megabytes)
            position = reached
        lines = found.read_text().splitlines() if found.exists() else []
    return figure, [{"reader": name, **json.loads(line)} for line in lines]


def _child(name: str, first: int, count: int, seed: int, progress: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.fuzz", "--progress", str(progress), "--only", name]
    command += ["--first", str(first), "--inputs", str(count), "--seed", str(seed)]
    # Arrow's own allocator reserves a gigabyte at once; libraries print what they think of files.
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment)


def _wait(process: subprocess.Popen[bytes], progress: Path) -> bool:
    """Wait for a process, and end it if it notes nothing new for too long: whether it did."""
    noted, patience = progress.read_bytes(), 600.0  # until it is up
    while True:
        try:
            process.wait(patience)
            return False
        except subprocess.TimeoutExpired:
            if (now := progress.read_bytes()) == noted:
                process.kill()
                process.wait()
                return True
            noted, patience = now, 12 * SECONDS  # by the clock of a machine that may be busy


def run_here(name: str, first: int, count: int, seed: int, progress: Path) -> None:
    """Run inputs in this process; note how far it is before each, and what went wrong."""
    warnings.simplefilter("ignore")
    refused, slowest = 0, 0.0
    with tempfile.TemporaryDirectory() as folder, progress.open("r+b", buffering=0) as noted:
        reader = READERS[name](Path(folder))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        for number in range(first, first + count + 1):
            megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000
            os.pwrite(noted.fileno(), NOTE.pack(number, refused, slowest, megabytes), 0)
            if number == first + count:
                return
            problem: dict[str, Any] | None = None
            start = time.process_time()
            try:
                reader(seed_of(name, number, seed))
            except CoverLockError:
                refused += 1
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{Path(where.filename).name}:{where.lineno}"
                problem = {"problem": f"{type(error).__name__}: {error}"[:300], "where": place}
            seconds = time.process_time() - start
            slowest = max(slowest, seconds)
            if problem or seconds > SECONDS:
                problem = {"number": number, **(problem or {"problem": f"took {seconds:.1f} s"})}
                with progress.with_name("findings").open("a") as findings:
                    findings.write(json.dumps(problem) + "\n")


if __name__ == "__main__":
    sys.exit(main())

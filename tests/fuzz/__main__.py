"""Run strange inputs through every reader and write down what happened.

python -m tests.fuzz --inputs 1000000 --seed 0 --out bench/results/fuzz.json

The inputs run in a process of their own with little memory. One that crashes, hangs or takes too
much is a finding; the process is started anew and goes on with the next input. Any finding can be
repeated: --only READER --first NUMBER --inputs 1.
"""

import argparse
import json
import math
import platform
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from coverlock_bench.results import revision
from tests.fuzz.processes import MEMORY, SECONDS, run_reader
from tests.fuzz.readers import READERS

SHARES = {"pictures": 2, "parquet": 0.3, "registries": 0.5, "bundles": 0.3, "HTTP": 0.3}
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
    options = parser.parse_args()
    chosen = [options.only] if options.only else list(READERS)
    result = run(chosen, options.inputs, options.seed, options.first, options.jobs, options.out)
    print(json.dumps({name: result[name] for name in ("inputs", "findings")}, indent=2))
    return 1 if result["findings"] else 0


def run(
    chosen: list[str], inputs: int, seed: int, first: int, jobs: int, out: Path | None
) -> dict[str, Any]:
    """Share ``inputs`` out among readers, run ``jobs`` of them at a time, and write the result."""
    total = sum(SHARES.get(name, 1) for name in chosen)
    start = time.monotonic()
    result: dict[str, Any] = {"inputs": 0, "findings": [], "readers": {}, "seed": seed}
    result |= {"revision": revision(), "python": platform.python_version()}
    result |= {"limits": {"seconds": SECONDS, "bytes": MEMORY}}

    def one(name: str) -> tuple[str, dict[str, Any], list[dict[str, Any]]]:
        count = max(1, math.ceil(inputs * SHARES.get(name, 1) / total))
        return (name, *run_reader(name, first, count, seed))

    with ThreadPoolExecutor(jobs) as pool:
        for name, figure, found in pool.map(one, chosen):
            print(name, figure, f"{len(found)} findings", file=sys.stderr, flush=True)
            result["readers"][name] = figure
            result["findings"] += found
            result["inputs"] += figure["inputs"]
    result["hours"] = round((time.monotonic() - start) / 3600, 3)
    result["made"] = datetime.now(timezone.utc).isoformat(timespec="seconds")
    if out:
        out.write_text(json.dumps(result, indent=2) + "\n")
    return result


if __name__ == "__main__":
    sys.exit(main())

"""Run strange inputs through every reader and write down what happened.

python -m tests.fuzz --inputs 1000000 --seed 0 --out fuzz.json

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
    """Share inputs out among readers, run some of them at a time, and write the result."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000, help="of all readers together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(READERS), help="one reader")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--out", type=Path, help="file for the result")
    options = parser.parse_args()
    chosen = [options.only] if options.only else list(READERS)
    total = sum(SHARES.get(name, 1) for name in chosen)
    start = time.monotonic()
    result: dict[str, Any] = {"inputs": 0, "findings": [], "readers": {}, "seed": options.seed}
    result |= {"revision": revision(), "python": platform.python_version()}
    result |= {"limits": {"seconds": SECONDS, "bytes": MEMORY}}

    def run(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        count = max(1, math.ceil(options.inputs * SHARES.get(name, 1) / total))
        return run_reader(name, options.first, count, options.seed)

    with ThreadPoolExecutor(options.jobs) as pool:
        for name, (figure, found) in zip(chosen, pool.map(run, chosen), strict=True):
            print(name, figure, f"{len(found)} findings", file=sys.stderr, flush=True)
            result["readers"][name] = figure
            result["findings"] += found
            result["inputs"] += figure["inputs"]
    result["hours"] = round((time.monotonic() - start) / 3600, 3)
    result["made"] = datetime.now(timezone.utc).isoformat(timespec="seconds")
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps({name: result[name] for name in ("inputs", "findings")}, indent=2))
    return 1 if result["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())

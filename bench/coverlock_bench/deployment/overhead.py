"""What the Verifier and the fusing of two networks cost, beside ONNX Runtime's bare sessions."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.utils import Extractor

from coverlock_bench.timing import seconds_in_turns
from coverlock_sdk.bundles.bundle import INPUT, OUTPUTS
from coverlock_sdk.images.conversion import read
from coverlock_sdk.verifier.onnx_runtime import cpu_session
from coverlock_sdk.verifier.verifier import Verifier

_OPENING = """
import time
from coverlock_sdk import Verifier
Verifier.open({bundle!r}, "cpu", threads=1)
print(time.process_time())
"""


def overhead(bundle: Path, photos: list[Path], batch: int, rounds: int) -> dict[str, Any]:
    """Ratios of processor time on one thread, in turns in which everything runs once."""
    with Verifier.open(bundle, "cpu", threads=1, max_batch=batch) as verifier:
        size = verifier.bundle.manifest.graph_size
        images = np.stack([read(photo).to_bytes(size) for photo in photos[:batch]])
        content = verifier.bundle.read(verifier.bundle.file("verify", "fp32"))
        fused = cpu_session(content, 1)
        graph = Extractor(onnx.load_from_string(content))
        apart = [
            cpu_session(graph.extract_model([INPUT], [output]).SerializeToString(), 1)
            for output in OUTPUTS
        ]
        works: dict[str, Callable[[], Any]] = {
            "fused": lambda: fused.run(None, {INPUT: images}),
            "apart": lambda: [session.run(None, {INPUT: images}) for session in apart],
            "verifier": lambda: verifier.verify(images, "overhead"),
        }
        taken = seconds_in_turns(list(works.values()), rounds, clock=time.process_time)
    seconds = dict(zip(works, taken.T.tolist(), strict=True))
    return {
        "batch": len(images),
        "rounds": rounds,
        "seconds": {name: statistics.median(times) for name, times in seconds.items()},
        "verifier_to_session": _ratio(seconds["verifier"], seconds["fused"]),
        "fused_to_apart": _ratio(seconds["fused"], seconds["apart"]),
        "import_and_open_seconds": statistics.median(_opening(bundle) for _ in range(3)),
    }


def _ratio(these: list[float], those: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(these, those, strict=True))


def _opening(bundle: Path) -> float:
    """Processor time of a fresh process that imports the SDK, opens a bundle and warms up."""
    script = _OPENING.format(bundle=str(bundle))
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return float(answer.stdout)

"""What a runtime is, and how one is chosen to run a bundle's graph.

A runtime does what was requested or says why it cannot. It never quietly does something slower, and
``choose`` logs why it passed over the others.
"""

from __future__ import annotations

import logging
import time
from pkgutil import resolve_name
from typing import Protocol

import numpy as np

from coverlock_sdk.arrays import Descriptions, Logits, Pixels
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.bundles.engines import NoGpuError, first_gpu
from coverlock_sdk.errors import CoverLockError, RuntimeUnavailableError

logger = logging.getLogger(__name__)

AUTO = "auto"

RUNTIMES = {
    "tensorrt": "coverlock_sdk.verifier.tensorrt_runtime:open_tensorrt",
    "cuda": "coverlock_sdk.verifier.onnx_runtime:open_cuda",
    "openvino": "coverlock_sdk.verifier.openvino_runtime:open_openvino",
    "cpu": "coverlock_sdk.verifier.onnx_runtime:open_cpu",
}
"""What opens each runtime: (bundle, precision, threads) -> Runtime, or
``RuntimeUnavailableError`` with the reason."""

RUNS = 3
"""How often to time a runtime, after one warm-up run."""

ON_GPU = ("tensorrt", "cuda")


class Runtime(Protocol):
    """Runs the ``verify`` graph of one bundle in one precision. All methods are thread-safe."""

    name: str
    providers: tuple[str, ...]
    """What actually computes, as the runtime's library reports after loading the graph."""

    def run(self, images: Pixels) -> tuple[Logits, Descriptions]:
        """Pictures uint8 (N, H, W, 3) to decoder logits (N, bits) and descriptions (N, ...).

        Raises ``MemoryError`` when the batch does not fit; the caller then tries a smaller one.
        """

    def close(self) -> None:
        """Release memory and devices; do not use the runtime afterwards."""


def choose(bundle: Bundle, wanted: str, precision: str, threads: int | None) -> Runtime:
    """Open the runtime ``wanted``, or with "auto" the fastest one for single pictures.

    The log says which one and why not the others. A GPU that no runtime can use is a warning.
    """
    if wanted != AUTO and wanted not in RUNTIMES:
        raise CoverLockError(f"there is no runtime '{wanted}': use {AUTO}, {', '.join(RUNTIMES)}")
    if wanted != AUTO:
        return resolve_name(RUNTIMES[wanted])(bundle, precision, threads)
    working: list[tuple[float, Runtime]] = []
    failures = {}
    for name, opener in RUNTIMES.items():
        try:
            runtime: Runtime = resolve_name(opener)(bundle, precision, threads)
        except RuntimeUnavailableError as error:
            failures[name] = str(error)
            continue
        try:
            working.append((_seconds(bundle, runtime), runtime))
        except (CoverLockError, MemoryError) as error:
            runtime.close()
            failures[name] = str(error)
    reasons = [f"not {name}: {reason}" for name, reason in failures.items()]
    if not working:
        raise RuntimeUnavailableError(
            f"no runtime can run {bundle.path} here ({'; '.join(reasons)})"
        )
    (least, best), *slower = sorted(working, key=lambda timed: timed[0])
    for seconds, runtime in slower:
        runtime.close()
        reasons.append(f"not {runtime.name}: {seconds * 1e3:.1f} ms")
    idle = not any(runtime.name in ON_GPU for _, runtime in working) and _has_gpu()
    chosen = f"{bundle.path} runs on {best.name} ({', '.join(best.providers)})"
    logger.log(
        logging.WARNING if idle else logging.INFO,
        "; ".join([f"{chosen}, {least * 1e3:.1f} ms per picture", *reasons]),
    )
    return best


def _seconds(bundle: Bundle, runtime: Runtime) -> float:
    """How long a warm runtime takes for one picture: the fastest of a few runs."""
    picture = np.zeros((1, *bundle.manifest.graph_size, 3), dtype=np.uint8)
    runtime.run(picture)
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        runtime.run(picture)
        times.append(time.perf_counter() - start)
    return min(times)


def _has_gpu() -> bool:
    try:
        first_gpu()
    except NoGpuError:
        return False
    return True

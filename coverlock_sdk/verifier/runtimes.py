"""Who runs a bundle's graph: the role of a runtime, and how one is chosen.

A runtime either does what was asked of it or says why not. None of them quietly does something
slower: ``choose`` logs why it passed over each of the others.
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
"""How often a runtime is timed, after a first run that warms it up."""

ON_GPU = ("tensorrt", "cuda")


class Runtime(Protocol):
    """Runs the ``verify`` graph of one bundle in one precision. All methods are thread-safe."""

    name: str
    providers: tuple[str, ...]
    """What really computes, as the runtime's library reports it after loading the graph."""

    def run(self, images: Pixels) -> tuple[Logits, Descriptions]:
        """Pictures uint8 (N, H, W, 3) to decoder logits (N, bits) and descriptions (N, ...).

        Raises ``MemoryError`` when the batch does not fit; the caller then tries a smaller one.
        """

    def close(self) -> None:
        """Give back memory and devices; the runtime is not used again."""


def choose(bundle: Bundle, wanted: str, precision: str, threads: int | None) -> Runtime:
    """The runtime named ``wanted``, or with "auto" the one that is fastest for single pictures.

    The log says which, and why none of the others; a GPU that no runtime can use is a warning.
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
    """How long a runtime takes for one picture when it is warm: the least of a few runs."""
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

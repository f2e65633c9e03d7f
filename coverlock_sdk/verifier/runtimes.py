"""Who runs a bundle's graph: the role of a runtime, and how one is chosen.

A runtime either does what was asked of it or says why not. None of them quietly does something
slower: ``choose`` logs why it passed over each one before it.
"""

from __future__ import annotations

import logging
from pkgutil import resolve_name
from typing import Protocol

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
"""What opens each runtime, the fastest first: (bundle, precision, threads) -> Runtime, or
``RuntimeUnavailableError`` with the reason."""

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
    """The runtime named ``wanted``, or with "auto" the first that works here.

    The log says which, and why none before it; where a GPU stays idle, that is a warning.
    """
    if wanted != AUTO and wanted not in RUNTIMES:
        raise CoverLockError(f"there is no runtime '{wanted}': use {AUTO}, {', '.join(RUNTIMES)}")
    if wanted != AUTO:
        return resolve_name(RUNTIMES[wanted])(bundle, precision, threads)
    passed_over = []
    for name, opener in RUNTIMES.items():
        try:
            runtime: Runtime = resolve_name(opener)(bundle, precision, threads)
        except RuntimeUnavailableError as error:
            passed_over.append(f"not {name}: {error}")
            continue
        idle = name not in ON_GPU and _has_gpu()
        chosen = f"{bundle.path} runs on {name} ({', '.join(runtime.providers)})"
        logger.log(logging.WARNING if idle else logging.INFO, "; ".join([chosen, *passed_over]))
        return runtime
    raise RuntimeUnavailableError(
        f"no runtime can run {bundle.path} here ({'; '.join(passed_over)})"
    )


def _has_gpu() -> bool:
    try:
        first_gpu()
    except NoGpuError:
        return False
    return True

"""Who runs a bundle's graph: the role of a runtime, and how one is chosen.

A runtime either does what was asked of it or says why not. None of them quietly does something
slower: ``choose`` keeps the reason of each one that it passed over.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Protocol

import numpy as np

from coverlock_sdk.arrays import Descriptions, Logits, Pixels
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.bundles.engines import NoGpuError, first_gpu
from coverlock_sdk.errors import CoverLockError, RuntimeUnavailableError

logger = logging.getLogger(__name__)


AUTO = "auto"


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


Opener = Callable[[Bundle, str, int | None], Runtime]
"""(bundle, precision, threads) -> Runtime, or ``RuntimeUnavailableError`` with the reason."""


def _opener(module: str, name: str, decodes: bool = False) -> Opener:
    """A runtime's ``open_NAME``, imported when it is needed; it may insist on decoding too."""

    def opened(bundle: Bundle, precision: str, threads: int | None) -> Runtime:
        if decodes and bundle.manifest.plugin is not None:
            raise RuntimeUnavailableError(
                f"{bundle.path} names a plugin that decodes on this machine, so '{name}' has no "
                "part in it: use 'cpu' or 'auto'"
            )
        module_of_runtime = import_module(f"coverlock_sdk.verifier.{module}_runtime")
        runtime: Runtime = getattr(module_of_runtime, f"open_{name}")(bundle, precision, threads)
        return runtime

    return opened


RUNTIMES: dict[str, Opener] = {
    "tensorrt": _opener("tensorrt", "tensorrt", decodes=True),
    "cuda": _opener("onnx", "cuda"),
    "openvino": _opener("openvino", "openvino"),
    "cpu": _opener("onnx", "cpu"),
}
"""The runtimes of this machine by name, those of GPUs first."""

ON_GPU = ("tensorrt", "cuda")


@dataclass(frozen=True)
class Choice:
    """The runtime that was chosen, and why each other one was not."""

    runtime: Runtime
    passed_over: dict[str, str]


_fastest: dict[tuple[str, int | None], str] = {}
"""What was measured in this process: the fastest runtime by graph and number of threads."""


def choose(bundle: Bundle, wanted: str, precision: str, threads: int | None) -> Choice:
    """The runtime named ``wanted``, or with "auto" the best that works here.

    That is a GPU's, if there is one, and otherwise the one of the processor that is the fastest.
    """
    if wanted != AUTO and wanted not in RUNTIMES:
        raise CoverLockError(f"there is no runtime '{wanted}': use {AUTO}, {', '.join(RUNTIMES)}")
    if wanted != AUTO:
        return Choice(RUNTIMES[wanted](bundle, precision, threads), {})
    graph = bundle.manifest.files[bundle.file(bundle.graph, precision)], threads
    passed_over: dict[str, str] = {}
    found: list[Runtime] = []
    for name, opener in RUNTIMES.items():
        known = _fastest.get(graph)
        if known in RUNTIMES and name not in (known, *ON_GPU):
            passed_over[name] = f"{known} is faster here"
            continue
        try:
            found.append(opener(bundle, precision, threads))
        except RuntimeUnavailableError as error:
            passed_over[name] = str(error)
            continue
        if name in ON_GPU:
            break
    if not found:
        reasons = "; ".join(f"{name}: {why}" for name, why in passed_over.items())
        raise RuntimeUnavailableError(f"no runtime can run {bundle.path} here ({reasons})")
    best, *slower = found if len(found) == 1 else sorted(found, key=partial(_seconds, bundle))
    for runtime in slower:
        runtime.close()
        _fastest[graph] = best.name
        passed_over[runtime.name] = f"{best.name} is faster here"
    _tell(bundle, best, passed_over)
    return Choice(best, passed_over)


def _seconds(bundle: Bundle, runtime: Runtime) -> float:
    """How long a runtime takes for one picture, when it is warm."""
    image = np.zeros((1, *bundle.manifest.graph_size, 3), dtype=np.uint8)
    times = []
    for _ in range(4):
        start = time.perf_counter()
        runtime.run(image)
        times.append(time.perf_counter() - start)
    return min(times[1:])


def _tell(bundle: Bundle, runtime: Runtime, passed_over: dict[str, str]) -> None:
    """Log which runtime was chosen and why no other; warn if a GPU stays idle."""
    idle = runtime.name not in ON_GPU and _has_gpu()
    reasons = "".join(f"; not {name}: {why}" for name, why in passed_over.items())
    logger.log(
        logging.WARNING if idle else logging.INFO,
        "%s runs on %s (%s)%s",
        bundle.path,
        runtime.name,
        ", ".join(runtime.providers),
        reasons,
    )


def _has_gpu() -> bool:
    try:
        first_gpu()
    except NoGpuError:
        return False
    return True

"""Who runs a bundle's graph: the role of a runtime, and how one is chosen.

A runtime either does what was asked of it or says why not. None of them quietly does something
slower: ``choose`` keeps the reason of each one that it passed over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from coverlock_sdk.arrays import Descriptions, Logits, Pixels
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.bundles.gpu import NoGpuError, first_gpu
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


def _tensorrt(bundle: Bundle, precision: str, threads: int | None) -> Runtime:
    _require_decoder(bundle, "TensorRT")
    from coverlock_sdk.verifier.tensorrt_runtime import open_tensorrt

    return open_tensorrt(bundle, precision, threads)


def _cuda(bundle: Bundle, precision: str, threads: int | None) -> Runtime:
    from coverlock_sdk.verifier.onnx_runtime import open_cuda

    return open_cuda(bundle, precision, threads)


def _openvino(bundle: Bundle, precision: str, threads: int | None) -> Runtime:
    from coverlock_sdk.verifier.openvino_runtime import open_openvino

    return open_openvino(bundle, precision, threads)


def _cpu(bundle: Bundle, precision: str, threads: int | None) -> Runtime:
    from coverlock_sdk.verifier.onnx_runtime import open_cpu

    return open_cpu(bundle, precision, threads)


def _triton(bundle: Bundle, precision: str, threads: int | None) -> Runtime:
    _require_decoder(bundle, "Triton")
    from coverlock_sdk.verifier.triton_runtime import open_triton

    return open_triton(bundle, precision, threads)


def _require_decoder(bundle: Bundle, runtime: str) -> None:
    if bundle.manifest.plugin is not None:
        raise RuntimeUnavailableError(
            f"{bundle.path} names a plugin that decodes on this machine, so {runtime} has no part "
            "in it: use 'cpu' or 'auto'"
        )


RUNTIMES: dict[str, Opener] = {
    "tensorrt": _tensorrt,
    "cuda": _cuda,
    "openvino": _openvino,
    "cpu": _cpu,
}
"""The runtimes of this machine by name, the one to prefer first."""

REMOTE: dict[str, Opener] = {"triton": _triton}
"""Runtimes elsewhere, which are taken only when they are named."""

ON_GPU = ("tensorrt", "cuda")


@dataclass(frozen=True)
class Choice:
    """The runtime that was chosen, and why each one before it was not."""

    runtime: Runtime
    passed_over: dict[str, str]


def choose(bundle: Bundle, wanted: str, precision: str, threads: int | None) -> Choice:
    """The runtime named ``wanted``, or with "auto" the first that works here."""
    named = {**RUNTIMES, **REMOTE}
    if wanted != AUTO and wanted not in named:
        raise CoverLockError(f"there is no runtime '{wanted}': use {AUTO}, {', '.join(named)}")
    if wanted != AUTO:
        return Choice(named[wanted](bundle, precision, threads), {})
    passed_over: dict[str, str] = {}
    for name, opener in RUNTIMES.items():
        try:
            runtime = opener(bundle, precision, threads)
        except RuntimeUnavailableError as error:
            passed_over[name] = str(error)
            continue
        _tell(bundle, runtime, passed_over)
        return Choice(runtime, passed_over)
    reasons = "; ".join(f"{name}: {why}" for name, why in passed_over.items())
    raise RuntimeUnavailableError(f"no runtime can run {bundle.path} here ({reasons})")


def _tell(bundle: Bundle, runtime: Runtime, passed_over: dict[str, str]) -> None:
    """Log which runtime was chosen and why not an earlier one; warn if a GPU stays idle."""
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

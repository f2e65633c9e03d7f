"""ONNX Runtime, on the processor or on an NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from coverlock_sdk.arrays import Descriptions, Logits, Pixels
from coverlock_sdk.bundles.bundle import INPUT, OUTPUTS, Bundle
from coverlock_sdk.errors import (
    BundleError,
    CoverLockError,
    RuntimeUnavailableError,
    install,
    needs,
)
from coverlock_sdk.threads import thread_limit

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"


class OnnxRuntime:
    """An inference session, which may be used from several threads at once."""

    def __init__(self, name: str, session: Any) -> None:
        self.name = name
        self.providers: tuple[str, ...] = tuple(session.get_providers())
        self._graph = GraphSession(session)
        there = {output.name for output in session.get_outputs()}
        self._outputs = [name for name in OUTPUTS if name in there]

    def run(self, images: Pixels) -> tuple[Logits, Descriptions]:
        """Run the graph on a batch."""
        try:
            *decoded, described = self._graph.run(self._outputs, {INPUT: images})
        except CoverLockError as error:
            if "alloc" in str(error).lower() or "out of memory" in str(error).lower():
                raise MemoryError(str(error)) from error
            raise
        return decoded[0] if decoded else np.empty((len(images), 0), np.float32), described

    def close(self) -> None:
        """Drop the session."""
        del self._graph


class GraphSession:
    """Any graph, which may be used from several threads at once."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def run(self, outputs: Sequence[str], feed: Mapping[str, Any]) -> list[Logits]:
        """The values of ``outputs``."""
        try:
            values = self._session.run(list(outputs), feed)
        except Exception as error:  # ONNX Runtime has a family of errors of its own
            raise CoverLockError(f"ONNX Runtime failed: {error}") from error
        return [np.asarray(value, dtype=np.float32) for value in values]


def open_cpu(bundle: Bundle, precision: str, threads: int | None) -> OnnxRuntime:
    """The bundle on the processor."""
    content = bundle.read(bundle.file(bundle.graph, precision))
    return OnnxRuntime("cpu", cpu_session(content, threads))


def open_cuda(bundle: Bundle, precision: str, threads: int | None) -> OnnxRuntime:
    """The bundle on an NVIDIA GPU, in full float32 if the precision is fp32."""
    library = _library()
    if CUDA not in library.get_available_providers():
        raise RuntimeUnavailableError(
            f"the installed ONNX Runtime has no CUDA: {install('gpu')} instead of [cpu]"
        )
    # TF32 would round the products of an fp32 graph to 10 bits.
    cuda = (CUDA, {"use_tf32": "0"})
    content = bundle.read(bundle.file(bundle.graph, precision))
    session = _session(library, content, threads, [cuda, CPU])
    if CUDA not in session.get_providers():
        raise RuntimeUnavailableError(
            "ONNX Runtime was built for CUDA but could not use it and fell back to the processor: "
            "check the NVIDIA driver, CUDA and cuDNN"
        )
    return OnnxRuntime("cuda", session)


def _library() -> ModuleType:
    with needs("this runtime", "ONNX Runtime", "cpu", RuntimeUnavailableError):
        import onnxruntime
    module: ModuleType = onnxruntime
    return module


def cpu_session(content: bytes, threads: int | None = None) -> Any:
    """A session of any graph on the processor."""
    return _session(_library(), content, threads, [CPU])


def _session(library: ModuleType, content: bytes, threads: int | None, providers: list[Any]) -> Any:
    options = library.SessionOptions()
    options.log_severity_level = 3  # a fallback is detected, and reported in one sentence
    if (limit := thread_limit(threads)) is not None:
        options.intra_op_num_threads = limit
    # Idle threads sleep, so that several sessions on one machine do not starve each other.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = library.InferenceSession(content, options, providers)
    except Exception as error:  # ONNX Runtime has a family of errors of its own
        raise BundleError(f"ONNX Runtime cannot load the graph: {error}") from error
    session.disable_fallback()  # otherwise ONNX Runtime quietly replaces a GPU after one failed run
    return session

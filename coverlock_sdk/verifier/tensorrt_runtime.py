"""TensorRT: engines that were compiled for this GPU.

Pictures go through page-locked buffers, batches are filled up to a few sizes, and for each size
the whole trip (copy in, compute, copy out) is recorded once as a CUDA graph and then replayed.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Descriptions, Logits, Pixels
from coverlock_sdk.bundles.bundle import INPUT, OUTPUTS, Bundle
from coverlock_sdk.bundles.engines import MODULES, Engine, Gpu, NoGpuError, first_gpu
from coverlock_sdk.errors import EngineError, RuntimeUnavailableError


def open_tensorrt(bundle: Bundle, precision: str, threads: int | None) -> TensorRtRuntime:
    """The first engine of the bundle that belongs on this machine."""
    if bundle.manifest.plugin is not None:
        raise RuntimeUnavailableError(
            f"{bundle.path} names a plugin that decodes on this machine, so 'tensorrt' has no "
            "part in it: use 'cpu' or 'auto'"
        )
    engines = bundle.engines("verify", precision)
    if not engines:
        raise RuntimeUnavailableError(
            f"{bundle.path} has no TensorRT engine in {precision}: "
            f"make one with 'coverlock compile {bundle.path} --target tensorrt'"
        )
    if not bundle.signed:
        raise RuntimeUnavailableError(
            "an engine is executable code and is only loaded from a bundle whose signature was "
            "checked: sign it with 'coverlock sign', and open it with trust="
        )
    try:
        gpu = first_gpu()
    except NoGpuError as reason:
        raise RuntimeUnavailableError(str(reason)) from None
    misfits = []
    for engine in engines:
        library, misfit = _library(engine, gpu)
        if library is not None:
            try:
                return TensorRtRuntime(library, engine, bundle.read(engine.file), gpu)
            except MemoryError:
                misfit = f"{gpu.name} has no memory left for batches of {engine.batches[2]}"
            except EngineError as error:
                misfit = str(error)
        misfits.append(f"{engine.file}: {misfit}")
    raise RuntimeUnavailableError("no engine of the bundle fits: " + "; ".join(misfits))


def _library(engine: Engine, gpu: Gpu) -> tuple[Any, str | None]:
    """NVIDIA's module for ``engine``, or None and the reason it cannot run here."""
    try:
        library = importlib.import_module(MODULES[engine.target])
        importlib.import_module("cuda.bindings.runtime")
    except ImportError as error:
        return None, f"{error.name or error} is not installed"
    misfit = engine.misfit(gpu, library.__version__)
    return (library, None) if misfit is None else (None, misfit)


class TensorRtRuntime:
    """One engine, one stream and one set of buffers; threads take turns."""

    name = "tensorrt"

    def __init__(self, library: Any, engine: Engine, plan: bytes, gpu: Gpu) -> None:
        self.providers: tuple[str, ...] = (f"{engine.target} {engine.version}", gpu.name)
        self._lock = threading.Lock()
        self._logger = library.Logger(library.Logger.ERROR)
        self._runtime = library.Runtime(self._logger)
        # A version-compatible engine brings host code of its own; the signature vouches for it.
        self._runtime.engine_host_code_allowed = engine.version_compatible
        self._engine = self._runtime.deserialize_cuda_engine(plan)
        if self._engine is None:
            raise EngineError(
                f"TensorRT does not accept {engine.file} on {gpu.name}: compile the bundle here"
            )
        self._sizes = batch_sizes(engine.batches[0], engine.batches[2])
        self._library = library
        self._contexts: dict[int, Any] = {}
        self._graphs: dict[int, Any] = {}
        self._buffers: dict[str, Buffer] = {}
        # TensorRT-RTX specialises kernels while it runs, and so records its graphs by itself.
        self._own_graphs = engine.target == "tensorrt"
        self._cuda = Cuda()
        self._stream = self._cuda.stream()
        try:
            for name in (INPUT, *OUTPUTS):
                self._buffers[name] = self._cuda.buffer(
                    (self._sizes[-1], *tuple(self._engine.get_tensor_shape(name))[1:]),
                    np.dtype(library.nptype(self._engine.get_tensor_dtype(name))),
                )
        except BaseException:
            self.close()
            raise

    def run(self, images: Pixels) -> tuple[Logits, Descriptions]:
        """Run the engine on a batch of any size."""
        largest = self._sizes[-1]
        with self._lock:
            parts = [self._run(images[i : i + largest]) for i in range(0, len(images), largest)]
        decoded, described = zip(*parts, strict=True)
        return np.concatenate(decoded), np.concatenate(described)

    def close(self) -> None:
        """Free graphs, buffers and the stream."""
        with self._lock:
            if self._engine is None:
                return
            for graph in self._graphs.values():
                self._cuda.call("cudaGraphExecDestroy", graph)
            for buffer in self._buffers.values():
                self._cuda.free(buffer)
            self._cuda.call("cudaStreamDestroy", self._stream)
            self._graphs, self._buffers, self._contexts = {}, {}, {}
            self._engine = self._runtime = None

    def _run(self, images: Pixels) -> tuple[Logits, Descriptions]:
        count = len(images)
        size = next(size for size in self._sizes if size >= count)
        self._buffers[INPUT].host[:count] = images
        self._buffers[INPUT].host[count:size] = 0
        if size in self._graphs:
            self._cuda.call("cudaGraphLaunch", self._graphs[size], self._stream)
        else:
            self._enqueue(size)
            if self._own_graphs:
                # The first run at a shape sets the context up, which a recording must not contain.
                self._cuda.call("cudaStreamSynchronize", self._stream)
                self._graphs[size] = self._recorded(size)
        self._cuda.call("cudaStreamSynchronize", self._stream)
        decoded, described = (
            self._buffers[name].host[:count].astype(np.float32) for name in OUTPUTS
        )
        return decoded, described

    def _context(self, size: int) -> Any:
        """The execution context of one batch size: what is recorded of it stays valid."""
        if size not in self._contexts:
            context = _new_context(self._library, self._engine)
            context.set_input_shape(INPUT, (size, *self._buffers[INPUT].host.shape[1:]))
            for name, buffer in self._buffers.items():
                context.set_tensor_address(name, buffer.device)
            self._contexts[size] = context
        return self._contexts[size]

    def _enqueue(self, size: int) -> None:
        context = self._context(size)
        self._cuda.copy_in(self._buffers[INPUT], size, self._stream)
        if not context.execute_async_v3(int(self._stream)):
            raise EngineError(f"TensorRT failed on a batch of {size} pictures")
        for name in OUTPUTS:
            self._cuda.copy_out(self._buffers[name], size, self._stream)

    def _recorded(self, size: int) -> Any:
        mode = self._cuda.library.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        self._cuda.call("cudaStreamBeginCapture", self._stream, mode)
        try:
            self._enqueue(size)
        except BaseException:
            # A stream that goes on recording would run nothing any more.
            with contextlib.suppress(EngineError, MemoryError):
                graph = self._cuda.call("cudaStreamEndCapture", self._stream)
                self._cuda.call("cudaGraphDestroy", graph)
            raise
        graph = self._cuda.call("cudaStreamEndCapture", self._stream)
        try:
            return self._cuda.call("cudaGraphInstantiate", graph, 0)
        finally:
            self._cuda.call("cudaGraphDestroy", graph)


def batch_sizes(smallest: int, largest: int) -> list[int]:
    """The sizes that batches are filled up to: doubling, so that few graphs serve them all."""
    sizes = [smallest]
    while sizes[-1] < largest:
        sizes.append(min(2 * sizes[-1], largest))
    return sizes


def _new_context(library: Any, engine: Any) -> Any:
    """An execution context, which in TensorRT-RTX is told to record by itself."""
    if hasattr(library, "CudaGraphStrategy"):
        config = engine.create_runtime_config()
        config.cuda_graph_strategy = library.CudaGraphStrategy.WHOLE_GRAPH_CAPTURE
        context = engine.create_execution_context(config)
    else:
        context = engine.create_execution_context()
    if context is None:
        raise MemoryError("the GPU has no memory left for an execution context")
    return context


class Buffer:
    """The same array twice: page-locked on the host, and on the GPU."""

    def __init__(self, host: npt.NDArray[Any], pointer: int, device: int) -> None:
        self.host = host
        self.pointer = pointer
        self.device = device

    def bytes(self, rows: int) -> int:
        """Size of the first ``rows`` rows."""
        return rows * self.host[:1].nbytes


class Cuda:
    """The few calls of the CUDA runtime that are needed, with errors as exceptions."""

    def __init__(self) -> None:
        self.library = importlib.import_module("cuda.bindings.runtime")

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function by its CUDA name; what does not fit is a ``MemoryError``."""
        code, *values = getattr(self.library, name)(*arguments)
        if code == self.library.cudaError_t.cudaErrorMemoryAllocation:
            raise MemoryError("the GPU's memory is full")
        if code != self.library.cudaError_t.cudaSuccess:
            raise EngineError(f"{name} failed: {code.name}")
        return values[0] if values else None

    def stream(self) -> Any:
        """A stream that does not wait for the default one."""
        return self.call("cudaStreamCreateWithFlags", self.library.cudaStreamNonBlocking)

    def buffer(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Buffer:
        """Room for an array on both sides."""
        size = int(np.prod(shape)) * dtype.itemsize
        pointer = int(self.call("cudaMallocHost", size))
        memory = (ctypes.c_byte * size).from_address(pointer)
        host: npt.NDArray[Any] = np.ndarray(shape, dtype, memoryview(memory).cast("B"))
        try:
            return Buffer(host, pointer, int(self.call("cudaMalloc", size)))
        except BaseException:
            self.call("cudaFreeHost", pointer)
            raise

    def copy_in(self, buffer: Buffer, rows: int, stream: Any) -> None:
        """Queue a copy of the first rows to the GPU."""
        kind = self.library.cudaMemcpyKind.cudaMemcpyHostToDevice
        size = buffer.bytes(rows)
        self.call("cudaMemcpyAsync", buffer.device, buffer.pointer, size, kind, stream)

    def copy_out(self, buffer: Buffer, rows: int, stream: Any) -> None:
        """Queue a copy of the first rows to the host."""
        kind = self.library.cudaMemcpyKind.cudaMemcpyDeviceToHost
        size = buffer.bytes(rows)
        self.call("cudaMemcpyAsync", buffer.pointer, buffer.device, size, kind, stream)

    def free(self, buffer: Buffer) -> None:
        """Give both halves back; the host array must not be used any more."""
        self.call("cudaFree", buffer.device)
        self.call("cudaFreeHost", buffer.pointer)

"""TensorRT and TensorRT-RTX: engines that were compiled for this kind of GPU.

Batches are padded to a few sizes, and TensorRT-RTX records a CUDA graph for each size.
"""

from __future__ import annotations

import threading
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Descriptions, Logits, Pixels
from coverlock_sdk.bundles.bundle import INPUT, OUTPUTS, Bundle
from coverlock_sdk.bundles.engines import PACKAGES, Engine, Gpu, NoGpuError, first_gpu
from coverlock_sdk.errors import EngineError, RuntimeUnavailableError, needs


def open_tensorrt(bundle: Bundle, precision: str, threads: int | None) -> TensorRtRuntime:
    """The first engine in the bundle that fits this machine."""
    if bundle.manifest.plugin is not None:
        raise RuntimeUnavailableError(
            f"{bundle.path} names a plugin that decodes on this machine, and 'tensorrt' cannot "
            "run it: use 'cpu' or 'auto'"
        )
    engines = bundle.engines("verify", precision)
    if not engines:
        raise RuntimeUnavailableError(
            f"{bundle.path} has no TensorRT engine in {precision}: "
            f"make one with 'coverlock compile {bundle.path}'"
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
        try:
            return _opened(bundle, engine, gpu)
        except MemoryError:
            misfit = f"{gpu.name} has no memory left for batches of {engine.batches[2]}"
        except EngineError as error:
            misfit = str(error)
        misfits.append(f"{engine.file}: {misfit}")
    raise RuntimeUnavailableError("no engine of the bundle fits: " + "; ".join(misfits))


def _opened(bundle: Bundle, engine: Engine, gpu: Gpu) -> TensorRtRuntime:
    module, extra = PACKAGES[engine.target]
    with needs("this runtime", engine.target, extra, EngineError):
        library, cuda = import_module(module), Cuda()
    if misfit := engine.misfit(gpu, library.__version__):
        raise EngineError(misfit)
    return TensorRtRuntime(library, cuda, engine, bundle.read(engine.file), gpu)


class TensorRtRuntime:
    """One engine, one stream and one set of buffers; threads take turns."""

    name = "tensorrt"

    def __init__(self, library: Any, cuda: Cuda, engine: Engine, plan: bytes, gpu: Gpu) -> None:
        self.providers: tuple[str, ...] = (f"{engine.target} {engine.version}", gpu.name)
        self._lock = threading.Lock()
        self._logger = library.Logger(library.Logger.ERROR)
        self._runtime = library.Runtime(self._logger)
        self._engine = self._runtime.deserialize_cuda_engine(plan)
        if self._engine is None:
            raise EngineError(f"{engine.target} does not accept it here: compile the bundle again")
        self._smallest, _, self._largest = engine.batches
        self._library, self._target = library, engine.target
        self._contexts: dict[int, Any] = {}
        self._buffers: dict[str, Buffer] = {}
        self._cuda = cuda
        self._stream = cuda.call("cudaStreamCreateWithFlags", cuda.library.cudaStreamNonBlocking)
        try:
            for name in (INPUT, *OUTPUTS):
                shape = self._largest, *tuple(self._engine.get_tensor_shape(name))[1:]
                host = np.zeros(shape, library.nptype(self._engine.get_tensor_dtype(name)))
                self._buffers[name] = Buffer(host, int(cuda.call("cudaMalloc", host.nbytes)))
        except BaseException:
            self.close()
            raise

    def run(self, images: Pixels) -> tuple[Logits, Descriptions]:
        """Run the engine on a batch of any size."""
        starts = range(0, len(images), self._largest)
        with self._lock:
            parts = [self._run(images[start : start + self._largest]) for start in starts]
        decoded, described = zip(*parts, strict=True)
        return np.concatenate(decoded), np.concatenate(described)

    def close(self) -> None:
        """Free the buffers and the stream."""
        with self._lock:
            if self._engine is None:
                return
            for buffer in self._buffers.values():
                self._cuda.call("cudaFree", buffer.device)
            self._cuda.call("cudaStreamDestroy", self._stream)
            self._buffers, self._contexts = {}, {}
            self._engine = self._runtime = None

    def _run(self, images: Pixels) -> tuple[Logits, Descriptions]:
        count, size = len(images), self._smallest
        while size < count:  # doubling, so that few graphs serve all batches
            size = min(2 * size, self._largest)
        context, pictures = self._context(size), self._buffers[INPUT]
        pictures.host[:count] = images
        pictures.host[count:size] = 0
        self._copy(pictures.device, pictures.address, pictures.host[:size].nbytes, "HostToDevice")
        if not context.execute_async_v3(int(self._stream)):
            raise EngineError(f"TensorRT failed on a batch of {size} pictures")
        outputs = [self._buffers[name] for name in OUTPUTS]
        for output in outputs:
            self._copy(output.address, output.device, output.host[:size].nbytes, "DeviceToHost")
        self._cuda.call("cudaStreamSynchronize", self._stream)
        decoded, described = (output.host[:count].astype(np.float32) for output in outputs)
        return decoded, described

    def _copy(self, target: int, source: int, size: int, direction: str) -> None:
        kind = getattr(self._cuda.library.cudaMemcpyKind, f"cudaMemcpy{direction}")
        self._cuda.call("cudaMemcpyAsync", target, source, size, kind, self._stream)

    def _context(self, size: int) -> Any:
        """The execution context of one batch size; its recordings stay valid."""
        if size not in self._contexts:
            settings = []
            if self._target == "tensorrt-rtx":
                [config] = settings = [self._engine.create_runtime_config()]
                config.cuda_graph_strategy = self._library.CudaGraphStrategy.WHOLE_GRAPH_CAPTURE
            context = self._engine.create_execution_context(*settings)
            if context is None:
                raise MemoryError("the GPU has no memory left for an execution context")
            context.set_input_shape(INPUT, (size, *self._buffers[INPUT].host.shape[1:]))
            for name, buffer in self._buffers.items():
                context.set_tensor_address(name, buffer.device)
            self._contexts[size] = context
        return self._contexts[size]


class Buffer(NamedTuple):
    """The same array on the host and on the GPU."""

    host: npt.NDArray[Any]
    device: int

    @property
    def address(self) -> int:
        """Where the host array begins."""
        return self.host.ctypes.data


class Cuda:
    """The CUDA runtime, with errors as exceptions."""

    def __init__(self) -> None:
        self.library = import_module("cuda.bindings.runtime")

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function by its CUDA name; raises ``MemoryError`` if memory is short."""
        code, *values = getattr(self.library, name)(*arguments)
        if code == self.library.cudaError_t.cudaErrorMemoryAllocation:
            raise MemoryError("the GPU's memory is full")
        if code != self.library.cudaError_t.cudaSuccess:
            raise EngineError(f"{name} failed: {code.name}")
        return values[0] if values else None

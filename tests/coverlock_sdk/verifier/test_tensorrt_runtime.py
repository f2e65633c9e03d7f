# ruff: noqa: N801, N802, N815 (these are CUDA's names)
import ctypes
import enum
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from coverlock_sdk.bundles.bundle import INPUT, OUTPUTS
from coverlock_sdk.bundles.engines import Engine, Gpu, NoGpuError, first_gpu
from coverlock_sdk.errors import EngineError, RuntimeUnavailableError
from coverlock_sdk.verifier.graph_runner import run_batch
from coverlock_sdk.verifier.tensorrt_runtime import TensorRtRuntime, open_tensorrt
from tests.toy_bundle import write_toy_bundle

ENGINE = Engine("verify", "fp32", "0" * 64, "tensorrt", "11.4.0", "sm89", (1, 4, 8), False)


ADA = Gpu("a pretended GPU", (8, 9))


SHAPES = {INPUT: (4, 4, 3), OUTPUTS[0]: (2,), OUTPUTS[1]: (3, 4, 4)}


TYPES = {INPUT: np.uint8, OUTPUTS[0]: np.float16, OUTPUTS[1]: np.float32}


class PretendedCuda(ModuleType):
    """Enough of the CUDA runtime to run on the host: recorded work is kept and played back."""

    class cudaError_t(enum.IntEnum):
        cudaSuccess = 0
        cudaErrorMemoryAllocation = 2
        cudaErrorUnknown = 999

    cudaStreamNonBlocking = 1
    cudaStreamCaptureMode = SimpleNamespace(cudaStreamCaptureModeThreadLocal=1)
    cudaMemcpyKind = SimpleNamespace(cudaMemcpyHostToDevice=1, cudaMemcpyDeviceToHost=2)

    def __init__(self) -> None:
        super().__init__("cuda.bindings.runtime")
        self.memory: dict[int, ctypes.Array] = {}
        self.streams = 0
        self.records = True
        self.recording: list | None = None
        self.launches = 0
        self.room = 1 << 20

    def __getattr__(self, name):
        if name.startswith(("cudaStream", "cudaGraph")):
            return lambda *_: (0, None)
        raise AttributeError(name)

    def do(self, work) -> None:
        if self.recording is None:
            work()
        else:
            self.recording.append(work)

    def allocate(self, size):
        if size > self.room - sum(map(len, self.memory.values())):
            return self.cudaError_t.cudaErrorMemoryAllocation, None
        block = ctypes.create_string_buffer(size)
        self.memory[ctypes.addressof(block)] = block
        return 0, ctypes.addressof(block)

    cudaMalloc = cudaMallocHost = allocate

    def release(self, address):
        del self.memory[address]
        return (0,)

    cudaFree = cudaFreeHost = release

    def cudaMemcpyAsync(self, target, source, size, kind, stream):
        self.do(lambda: ctypes.memmove(target, source, size))
        return (0,)

    def cudaStreamCreateWithFlags(self, flags):
        self.streams += 1
        return 0, 7

    def cudaStreamDestroy(self, stream):
        self.streams -= 1
        return (0,)

    def cudaStreamSynchronize(self, stream):
        # A stream that is recording cannot be waited for.
        return (self.cudaError_t.cudaErrorUnknown if self.recording is not None else 0,)

    def cudaStreamBeginCapture(self, stream, mode):
        self.recording = []
        return (0,)

    def cudaStreamEndCapture(self, stream):
        recorded, self.recording = self.recording, None
        return 0, recorded

    def cudaGraphInstantiate(self, graph, flags):
        return 0, graph

    def cudaGraphLaunch(self, graph, stream):
        self.launches += 1
        for work in graph:
            work()
        return (0,)


class PretendedContext:
    """Sums of each picture and its first values, from one device address to two others."""

    def __init__(self, cuda: PretendedCuda) -> None:
        self.cuda = cuda
        self.addresses: dict[str, int] = {}
        self.shape: tuple[int, ...] = ()
        self.sizes: list[int] = []

    def set_tensor_address(self, name, address):
        self.addresses[name] = address

    def set_input_shape(self, name, shape):
        self.shape = shape

    def execute_async_v3(self, stream):
        count = self.shape[0]
        if self.cuda.recording is not None and not self.cuda.records:
            return False
        if self.cuda.recording is None:
            self.sizes.append(count)
        self.cuda.do(lambda: self._compute(count))
        return True

    def _compute(self, count):
        images, decoded, described = (self._array(name, count) for name in (INPUT, *OUTPUTS))
        decoded[:] = images.reshape(count, -1).sum(axis=1)[:, None] * [1, -1]
        described[:] = np.moveaxis(images, -1, 1)

    def _array(self, name, count):
        shape, dtype = (count, *SHAPES[name]), np.dtype(TYPES[name])
        size = int(np.prod(shape)) * dtype.itemsize
        memory = (ctypes.c_byte * size).from_address(self.addresses[name])
        return np.ndarray(shape, dtype, memory)


class PretendedTensorRt:
    """The part of NVIDIA's module that a runtime needs."""

    Logger = SimpleNamespace
    nptype = staticmethod(lambda dtype: dtype)

    def __init__(self, cuda: PretendedCuda, accepts: bool = True) -> None:
        self.contexts: list[PretendedContext | None] = []
        self.contexts_left = 100
        engine = SimpleNamespace(
            get_tensor_shape=lambda name: (-1, *SHAPES[name]),
            get_tensor_dtype=lambda name: TYPES[name],
            create_execution_context=lambda: self.context(cuda),
        )
        self.Logger = lambda level: None
        self.Logger.ERROR = 1
        self.Runtime = lambda logger: SimpleNamespace(
            deserialize_cuda_engine=lambda plan: engine if accepts else None
        )

    def context(self, cuda: PretendedCuda) -> PretendedContext | None:
        if len(self.contexts) == self.contexts_left:
            return None  # as TensorRT does where memory is short
        self.contexts.append(PretendedContext(cuda))
        return self.contexts[-1]


@pytest.fixture
def cuda(monkeypatch):
    pretended = PretendedCuda()
    monkeypatch.setitem(sys.modules, "cuda.bindings.runtime", pretended)
    return pretended


@pytest.fixture
def library(cuda):
    return PretendedTensorRt(cuda)


@pytest.fixture
def runtime(library):
    return TensorRtRuntime(library, ENGINE, b"plan", ADA)


def pictures(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 50, (count, *SHAPES[INPUT]), dtype=np.uint8)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 19])
def test_batches_of_any_size_come_back_whole_and_in_order(runtime, count):
    for seed in range(3):  # the first time it runs, then what was recorded is replayed
        images = pictures(count, seed)
        decoded, described = runtime.run(images)
        assert decoded.dtype == np.float32
        assert np.array_equal(decoded[:, 0], images.reshape(count, -1).sum(axis=1))
        assert np.array_equal(described, np.moveaxis(images, -1, 1))


def test_everything_allocated_is_given_back(runtime, cuda):
    runtime.run(pictures(2))
    assert len(cuda.memory) == 6  # an input and two outputs, on both sides
    runtime.close()
    assert not cuda.memory
    runtime.close()  # again does no harm


@pytest.mark.parametrize("room", [16, 500, 900, 1000])
def test_a_runtime_that_does_not_fit_leaves_nothing_behind(cuda, library, room):
    cuda.room = room  # 384, 32 and 96 bytes are needed, each on both sides
    with pytest.raises(MemoryError):
        TensorRtRuntime(library, ENGINE, b"plan", ADA)
    assert not cuda.memory
    assert cuda.streams == 0


def test_a_batch_whose_context_does_not_fit_is_run_in_halves(runtime, library):
    runtime.run(pictures(2))
    library.contexts_left = 1
    with pytest.raises(MemoryError):
        runtime.run(pictures(8))
    images = pictures(8)
    decoded, _ = run_batch(runtime, images)
    assert np.array_equal(decoded[:, 0], images.reshape(8, -1).sum(axis=1))


def test_a_recording_that_fails_is_ended_and_the_runtime_goes_on(runtime, cuda):
    cuda.records = False
    with pytest.raises(EngineError, match="failed on a batch of 2"):
        runtime.run(pictures(2))
    cuda.records = True
    decoded, _ = runtime.run(pictures(2))
    assert np.array_equal(decoded[:, 0], pictures(2).reshape(2, -1).sum(axis=1))


def test_an_engine_that_tensorrt_refuses_is_reported(cuda):
    with pytest.raises(EngineError, match="compile the bundle here"):
        TensorRtRuntime(PretendedTensorRt(cuda, accepts=False), ENGINE, b"plan", ADA)


def test_engines_of_an_unsigned_bundle_are_never_loaded(tmp_path):
    bundle = write_toy_bundle(tmp_path / "bundle")
    with pytest.raises(RuntimeUnavailableError, match="has no TensorRT engine in fp32"):
        open_tensorrt(bundle, "fp32", None)
    source = bundle.manifest.files["verify.onnx"]
    fitting = Engine("verify", "fp32", source, "tensorrt", "11.4.0", "sm89", (1, 8, 32), False)
    with pytest.raises(RuntimeUnavailableError, match="signature was checked"):
        open_tensorrt(bundle.with_engine(b"code", fitting), "fp32", None)


def test_an_engine_is_taken_where_it_fits_and_passed_over_elsewhere(tmp_path, cuda, monkeypatch):
    bundle = write_toy_bundle(tmp_path / "bundle")
    source = bundle.manifest.files["verify.onnx"]
    foreign = Engine("verify", "fp32", source, "tensorrt", "11.4.0", "sm90", (1, 8, 32), False)
    signed = replace(bundle.with_engine(b"code", foreign), signed=True)
    monkeypatch.setattr("coverlock_sdk.verifier.tensorrt_runtime.first_gpu", lambda: ADA)
    monkeypatch.setitem(sys.modules, "tensorrt", SimpleNamespace(__version__="11.4.0"))
    with pytest.raises(RuntimeUnavailableError, match="built for sm90, and a pretended GPU is"):
        open_tensorrt(signed, "fp32", None)

    fitting = replace(foreign, architecture="sm89")
    signed = replace(bundle.with_engine(b"code", fitting), signed=True)
    library = PretendedTensorRt(cuda)
    library.__version__ = "11.4.0"
    monkeypatch.setitem(sys.modules, "tensorrt", library)
    assert open_tensorrt(signed, "fp32", None).providers == ("tensorrt 11.4.0", ADA.name)
    cuda.room = 16
    with pytest.raises(RuntimeUnavailableError, match="no memory left for batches of 32"):
        open_tensorrt(signed, "fp32", None)


@pytest.mark.gpu
@pytest.mark.parametrize("target", ["tensorrt", "tensorrt-rtx"])
def test_a_real_engine_gives_the_logits_of_onnx_runtime(tmp_path, target):
    try:
        first_gpu()
    except NoGpuError as reason:
        pytest.skip(str(reason))
    from coverlock_export.tensorrt import BuildSettings, compile_bundle
    from coverlock_sdk.bundles.bundle import Bundle
    from coverlock_sdk.verifier.onnx_runtime import open_cpu

    pytest.importorskip(target.replace("-", "_"))
    bundle = write_toy_bundle(tmp_path / "bundle")
    list(compile_bundle(bundle, BuildSettings(target), {"verify": ["fp32"]}))
    bundle = replace(Bundle.open(bundle.path), signed=True)
    images = np.random.default_rng(0).integers(0, 256, (11, 128, 128, 3), dtype=np.uint8)
    engine, reference = open_tensorrt(bundle, "fp32", None), open_cpu(bundle, "fp32", None)
    for _ in range(3):
        for got, wanted in zip(engine.run(images), reference.run(images), strict=True):
            np.testing.assert_allclose(got, wanted, atol=1e-2)
    engine.close()


def test_each_size_is_recorded_once_in_a_context_of_its_own_and_replayed(runtime, cuda, library):
    for count in (3, 4, 7, 3, 4, 3):
        runtime.run(pictures(count))
    assert [context.sizes for context in library.contexts] == [[4], [8]]
    assert cuda.launches == 4

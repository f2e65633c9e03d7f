# ruff: noqa: N801, N802, N815 (these are CUDA's names)
import ctypes
import enum
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from coverlock_sdk.bundles.bundle import INPUT, OUTPUTS
from coverlock_sdk.bundles.engines import PACKAGES, TARGETS, Engine, Gpu, NoGpuError, first_gpu
from coverlock_sdk.errors import RuntimeUnavailableError
from coverlock_sdk.verifier.graph_runner import run_batch
from coverlock_sdk.verifier.tensorrt_runtime import Cuda, TensorRtRuntime, open_tensorrt
from tests.toy_bundle import write_toy_bundle

ENGINES = {
    "tensorrt-rtx": Engine("verify", "fp32", "0" * 64, "tensorrt-rtx", "1.7.1", (1, 4, 8)),
    "tensorrt": Engine("verify", "fp32", "0" * 64, "tensorrt", "1.7.1", (1, 4, 8), "sm89"),
}


ADA = Gpu("a pretended GPU", (8, 9))


SHAPES = {INPUT: (4, 4, 3), OUTPUTS[0]: (2,), OUTPUTS[1]: (3, 4, 4)}


TYPES = {INPUT: np.uint8, OUTPUTS[0]: np.float16, OUTPUTS[1]: np.float32}


class PretendedCuda(ModuleType):
    """Enough of the CUDA runtime to run on the host."""

    class cudaError_t(enum.IntEnum):
        cudaSuccess = 0
        cudaErrorMemoryAllocation = 2

    cudaStreamNonBlocking = 1
    cudaMemcpyKind = SimpleNamespace(cudaMemcpyHostToDevice=1, cudaMemcpyDeviceToHost=2)

    def __init__(self) -> None:
        super().__init__("cuda.bindings.runtime")
        self.memory: dict[int, ctypes.Array] = {}
        self.streams = 0
        self.room = 1 << 20

    def allocate(self, size):
        if size > self.room - sum(map(len, self.memory.values())):
            return self.cudaError_t.cudaErrorMemoryAllocation, None
        block = ctypes.create_string_buffer(size)
        self.memory[ctypes.addressof(block)] = block
        return 0, ctypes.addressof(block)

    cudaMalloc = allocate

    def release(self, address):
        del self.memory[address]
        return (0,)

    cudaFree = release

    def cudaMemcpyAsync(self, target, source, size, kind, stream):
        ctypes.memmove(target, source, size)
        return (0,)

    def cudaStreamCreateWithFlags(self, flags):
        self.streams += 1
        return 0, 7

    def cudaStreamDestroy(self, stream):
        self.streams -= 1
        return (0,)

    def cudaStreamSynchronize(self, stream):
        return (0,)


class PretendedContext:
    """Sums of each picture and its first values, from one device address to two others."""

    def __init__(self) -> None:
        self.addresses: dict[str, int] = {}
        self.shape: tuple[int, ...] = ()
        self.sizes: list[int] = []

    def set_tensor_address(self, name, address):
        self.addresses[name] = address

    def set_input_shape(self, name, shape):
        self.shape = shape

    def execute_async_v3(self, stream):
        count = self.shape[0]
        self.sizes.append(count)
        images, decoded, described = (self._array(name, count) for name in (INPUT, *OUTPUTS))
        decoded[:] = images.reshape(count, -1).sum(axis=1)[:, None] * [1, -1]
        described[:] = np.moveaxis(images, -1, 1)
        return True

    def _array(self, name, count):
        shape, dtype = (count, *SHAPES[name]), np.dtype(TYPES[name])
        size = int(np.prod(shape)) * dtype.itemsize
        memory = (ctypes.c_byte * size).from_address(self.addresses[name])
        return np.ndarray(shape, dtype, memory)


class PretendedTensorRt:
    """The part of NVIDIA's module that a runtime needs."""

    __version__ = "1.7.1"
    CudaGraphStrategy = SimpleNamespace(WHOLE_GRAPH_CAPTURE="whole")
    nptype = staticmethod(lambda dtype: dtype)

    def __init__(self, accepts: bool = True) -> None:
        self.contexts: list[PretendedContext] = []
        self.contexts_left = 100
        engine = SimpleNamespace(
            get_tensor_shape=lambda name: (-1, *SHAPES[name]),
            get_tensor_dtype=lambda name: TYPES[name],
            create_runtime_config=SimpleNamespace,
            create_execution_context=self.context,
        )
        self.Logger = lambda level: None
        self.Logger.ERROR = 1
        self.Runtime = lambda logger: SimpleNamespace(
            deserialize_cuda_engine=lambda plan: engine if accepts else None
        )

    def context(self, *config) -> PretendedContext | None:
        assert all(given.cuda_graph_strategy == "whole" for given in config)
        if len(self.contexts) == self.contexts_left:
            return None  # as TensorRT does where memory is short
        self.contexts.append(PretendedContext())
        return self.contexts[-1]


@pytest.fixture
def cuda(monkeypatch):
    pretended = PretendedCuda()
    monkeypatch.setitem(sys.modules, "cuda.bindings.runtime", pretended)
    return pretended


@pytest.fixture(params=ENGINES)
def engine(request):
    return ENGINES[request.param]


@pytest.fixture
def library(cuda, engine, monkeypatch):
    pretended = PretendedTensorRt()
    monkeypatch.setitem(sys.modules, PACKAGES[engine.target][0], pretended)
    return pretended


@pytest.fixture
def runtime(library, engine):
    return TensorRtRuntime(library, Cuda(), engine, b"plan", ADA)


def pictures(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 50, (count, *SHAPES[INPUT]), dtype=np.uint8)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 19])
def test_batches_of_any_size_come_back_whole_and_in_order(runtime, count):
    for seed in range(3):
        images = pictures(count, seed)
        decoded, described = runtime.run(images)
        assert decoded.dtype == np.float32
        assert np.array_equal(decoded[:, 0], images.reshape(count, -1).sum(axis=1))
        assert np.array_equal(described, np.moveaxis(images, -1, 1))


def test_everything_allocated_is_given_back(runtime, cuda):
    runtime.run(pictures(2))
    assert len(cuda.memory) == 3  # an input and two outputs
    runtime.close()
    assert not cuda.memory
    runtime.close()  # again does no harm


@pytest.mark.parametrize("room", [16, 400, 500])
def test_a_runtime_that_does_not_fit_leaves_nothing_behind(cuda, library, engine, room):
    cuda.room = room  # 384, 32 and 1,536 bytes are needed
    with pytest.raises(MemoryError):
        TensorRtRuntime(library, Cuda(), engine, b"plan", ADA)
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


def test_each_size_has_a_context_of_its_own(runtime, library):
    for count in (3, 4, 7, 3):
        runtime.run(pictures(count))
    assert [context.sizes for context in library.contexts] == [[4, 4, 4], [8]]


def test_an_engine_is_taken_where_it_fits_and_passed_over_elsewhere(
    tmp_path, cuda, library, engine, monkeypatch
):
    gpu = "coverlock_sdk.verifier.tensorrt_runtime.first_gpu"
    monkeypatch.setattr(gpu, lambda: ADA)
    bundle = write_toy_bundle(tmp_path / "bundle")
    with pytest.raises(RuntimeUnavailableError, match="has no TensorRT engine in fp32"):
        open_tensorrt(bundle, "fp32", None)
    fitting = replace(engine, source=bundle.manifest.files["verify.onnx"])
    bundle = bundle.with_engine(b"code", fitting)
    with pytest.raises(RuntimeUnavailableError, match="signature was checked"):
        open_tensorrt(bundle, "fp32", None)
    signed = replace(bundle, signed=True)
    assert open_tensorrt(signed, "fp32", None).providers == (f"{engine.target} 1.7.1", ADA.name)
    cuda.room = 16
    with pytest.raises(RuntimeUnavailableError, match="no memory left for batches of 8"):
        open_tensorrt(signed, "fp32", None)
    library.__version__ = "1.8.0"
    with pytest.raises(
        RuntimeUnavailableError, match=f"built by {engine.target} 1.7.1, and 1.8.0 is"
    ):
        open_tensorrt(signed, "fp32", None)
    monkeypatch.setattr(gpu, lambda: Gpu("an H100", (9, 0)))
    with pytest.raises(RuntimeUnavailableError, match="an H100"):
        open_tensorrt(signed, "fp32", None)
    module, extra = PACKAGES[engine.target]
    monkeypatch.setattr(gpu, lambda: ADA)
    for found, reason in (
        (PretendedTensorRt(accepts=False), "compile the bundle again"),
        (None, rf"pip install 'coverlock-sdk\[{extra}\]'"),
    ):
        monkeypatch.setitem(sys.modules, module, found)
        with pytest.raises(RuntimeUnavailableError, match=reason):
            open_tensorrt(signed, "fp32", None)


@pytest.mark.gpu
@pytest.mark.parametrize("target", TARGETS)
def test_a_real_engine_gives_the_logits_of_onnx_runtime(tmp_path, target):
    try:
        gpu = first_gpu()
    except NoGpuError as reason:
        pytest.skip(str(reason))
    if target == "tensorrt-rtx" and not gpu.is_rtx:
        pytest.skip(f"{gpu.name} is no RTX GPU")
    pytest.importorskip(PACKAGES[target][0])
    from coverlock_export.tensorrt import compile_bundle
    from coverlock_sdk.bundles.bundle import Bundle
    from coverlock_sdk.verifier.onnx_runtime import open_cpu

    bundle = write_toy_bundle(tmp_path / "bundle")
    list(compile_bundle(bundle, {"verify": ["fp32"]}, target=target))
    bundle = replace(Bundle.open(bundle.path), signed=True)
    images = np.random.default_rng(0).integers(0, 256, (11, 128, 128, 3), dtype=np.uint8)
    engine, reference = open_tensorrt(bundle, "fp32", None), open_cpu(bundle, "fp32", None)
    for _ in range(3):
        for got, wanted in zip(engine.run(images), reference.run(images), strict=True):
            np.testing.assert_allclose(got, wanted, atol=1e-2)
    engine.close()

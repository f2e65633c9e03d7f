"""From an ONNX graph to an engine of TensorRT-RTX or TensorRT, whose builders are alike.

TensorRT-RTX builds ahead of time for all RTX GPUs from Ampere on and needs none itself; TensorRT
builds on the GPU that the engine is for. Precision is a property of the graph: networks are
strongly typed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.bundles.engines import PACKAGES, Engine, NoGpuError, Target, first_gpu
from coverlock_sdk.errors import EngineError, needs

BATCHES = (1, 8, 32)
"""The smallest batch an engine accepts, the one it is tuned for, and the largest."""


@dataclass(frozen=True)
class Compiled:
    """An engine of a bundle, and whether it had to be built."""

    engine: Engine
    built: bool


def compile_bundle(
    bundle: Bundle,
    graphs: Mapping[str, list[str]],
    batches: tuple[int, int, int] = BATCHES,
    target: Target = "tensorrt-rtx",
) -> Iterator[Compiled]:
    """Build engines for ``graphs`` (precisions by graph name) and put them into the bundle.

    The bundle is its own cache: an engine of the same graph, batches, library and kind of GPU that
    is there already is not built again.
    """
    smallest, usual, largest = batches
    if not 1 <= smallest <= usual <= largest:
        raise EngineError(
            f"the batch sizes {smallest}, {usual}, {largest} are not in order: "
            "give the smallest, the usual and the largest"
        )
    library = load_library(target)
    architecture = _gpu_to_build_on() if target == "tensorrt" else None
    for graph, precisions in graphs.items():
        for precision in precisions:
            file = bundle.file(graph, precision)
            source, version = bundle.manifest.files[file], library.__version__
            engine = Engine(graph, precision, source, target, version, batches, architecture)
            built = engine.file not in bundle.manifest.files
            if built:
                content = build_engine(library, bundle.read(file), file, batches)
                bundle = bundle.with_engine(content, engine)
            yield Compiled(engine, built)


def load_library(target: Target) -> Any:
    """NVIDIA's Python module for ``target``."""
    module, extra = PACKAGES[target]
    with needs("an engine", target, extra):
        return import_module(module)


def _gpu_to_build_on() -> str:
    """The architecture of this machine's GPU, without which TensorRT's builder crashes."""
    try:
        return first_gpu().architecture
    except NoGpuError as reason:
        raise EngineError(
            f"TensorRT builds on the GPU that the engine is for, but {reason}: "
            "build there, or use '--target tensorrt-rtx', which needs no GPU"
        ) from None


def build_engine(trt: Any, graph: bytes, name: str, batches: tuple[int, int, int]) -> bytes:
    """Compile an ONNX graph with one of NVIDIA's modules; ``name`` is for messages."""
    problems = _problem_log(trt)
    builder = trt.Builder(problems)
    network, _parser = _parsed(trt, builder, problems, graph, name)
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)  # which rounds fp32 products to 10 bits
    config.add_optimization_profile(_profile(builder, network, batches))
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        reasons = "; ".join(problems.messages) or "no reason given"
        raise EngineError(f"TensorRT could not build {name}: {reasons}")
    return bytes(plan)


def _parsed(trt: Any, builder: Any, problems: Any, graph: bytes, name: str) -> tuple[Any, Any]:
    """The network of an ONNX graph, and the parser, which owns its weights."""
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, problems)
    if not parser.parse(graph):
        reasons = "; ".join(parser.get_error(i).desc() for i in range(parser.num_errors))
        raise EngineError(f"TensorRT does not accept {name}: {reasons}")
    return network, parser


def _inputs(network: Any) -> list[Any]:
    return [network.get_input(index) for index in range(network.num_inputs)]


def _profile(builder: Any, network: Any, batches: tuple[int, int, int]) -> Any:
    """Every input takes the batch sizes in its first dimension; nothing else may vary."""
    profile = builder.create_optimization_profile()
    for tensor in _inputs(network):
        fixed = tuple(tensor.shape)[1:]
        if -1 in fixed:
            raise EngineError(f"only the batch size of '{tensor.name}' may vary, not {fixed}")
        profile.set_shape(tensor.name, *((size, *fixed) for size in batches))
    return profile


def _problem_log(trt: Any) -> Any:
    """A TensorRT logger that keeps what went wrong instead of printing everything."""

    class ProblemLog(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.messages: list[str] = []

        def log(self, severity: Any, message: str) -> None:
            if severity <= trt.ILogger.ERROR:
                self.messages.append(message)

    return ProblemLog()

"""From an ONNX graph to a TensorRT-RTX engine.

TensorRT-RTX builds ahead of time for all RTX GPUs from Ampere on and needs none itself. Precision
is a property of the graph: networks are strongly typed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.bundles.engines import Engine
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
) -> Iterator[Compiled]:
    """Build engines for ``graphs`` (precisions by graph name) and put them into the bundle.

    The bundle is its own cache: an engine of the same graph, batches and version of TensorRT-RTX
    that is there already is not built again.
    """
    smallest, usual, largest = batches
    if not 1 <= smallest <= usual <= largest:
        raise EngineError(
            f"the batch sizes {smallest}, {usual}, {largest} are not in order: "
            "give the smallest, the usual and the largest"
        )
    version = load_library().__version__
    for graph, precisions in graphs.items():
        for precision in precisions:
            file = bundle.file(graph, precision)
            engine = Engine(graph, precision, bundle.manifest.files[file], version, batches)
            built = engine.file not in bundle.manifest.files
            if built:
                content = build_engine(bundle.read(file), file, batches)
                bundle = bundle.with_engine(content, engine)
            yield Compiled(engine, built)


def load_library() -> Any:
    """NVIDIA's Python module."""
    with needs("an engine", "TensorRT-RTX", "rtx"):
        import tensorrt_rtx
    return tensorrt_rtx


def build_engine(graph: bytes, name: str, batches: tuple[int, int, int]) -> bytes:
    """Compile an ONNX graph; ``name`` is for messages."""
    trt = load_library()
    problems = _problem_log(trt)
    builder = trt.Builder(problems)
    network, _parser = _parsed(trt, builder, problems, graph, name)
    config = builder.create_builder_config()
    config.add_optimization_profile(_profile(builder, network, batches))
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        reasons = "; ".join(problems.messages) or "no reason given"
        raise EngineError(f"TensorRT-RTX could not build {name}: {reasons}")
    return bytes(plan)


def _parsed(trt: Any, builder: Any, problems: Any, graph: bytes, name: str) -> tuple[Any, Any]:
    """The network of an ONNX graph, and the parser, which owns its weights."""
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, problems)
    if not parser.parse(graph):
        reasons = "; ".join(parser.get_error(i).desc() for i in range(parser.num_errors))
        raise EngineError(f"TensorRT-RTX does not accept {name}: {reasons}")
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

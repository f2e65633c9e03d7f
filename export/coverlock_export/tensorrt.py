"""From an ONNX graph to a TensorRT engine.

TensorRT (10.12 or newer, and 11) builds for the GPU it runs on; TensorRT-RTX builds ahead of
time for a range of GPUs and needs none itself. Their builders share one interface, so the code
here is the same for both. Precision is a property of the graph: networks are strongly typed,
which TensorRT 11 always is and 10 is when told so.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.bundles.engines import MODULES, PORTABLE, Engine, NoGpuError, Target, first_gpu
from coverlock_sdk.errors import EngineError, MissingModelError, install

_HINTS: dict[Target, str] = {
    "tensorrt": f"{install('tensorrt')} with NVIDIA's package index",
    "tensorrt-rtx": install("rtx"),
}


@dataclass(frozen=True)
class BuildSettings:
    """What engines are built for."""

    target: Target
    batches: tuple[int, int, int] = (1, 8, 32)
    """The smallest batch an engine accepts, the one it is tuned for, and the largest."""
    portable: bool = False
    """Runs on every GPU from Ampere on, a little slower than one built for its GPU alone."""
    version_compatible: bool = False
    """Runs on later versions of TensorRT too; such an engine contains host code."""

    def __post_init__(self) -> None:
        smallest, usual, largest = self.batches
        if not 1 <= smallest <= usual <= largest:
            raise EngineError(
                f"the batch sizes {smallest}, {usual}, {largest} are not in order: "
                "give the smallest, the usual and the largest"
            )
        if self.target == "tensorrt-rtx" and self.version_compatible:
            raise EngineError("version-compatible engines are a feature of 'tensorrt' only")

    @property
    def architecture(self) -> str:
        """Which GPUs the engine will run on: all from Ampere on, or those like this machine's."""
        if self.portable or self.target == "tensorrt-rtx":
            return PORTABLE
        return _gpu_to_build_on()


def _gpu_to_build_on() -> str:
    try:
        return first_gpu().architecture
    except NoGpuError as reason:
        raise EngineError(
            f"TensorRT builds on the GPU that the engine is for, but {reason}: "
            "build there, or use '--target tensorrt-rtx', which needs no GPU"
        ) from None


@dataclass(frozen=True)
class Compiled:
    """An engine of a bundle, and whether it had to be built."""

    engine: Engine
    built: bool


def compile_bundle(
    bundle: Bundle, settings: BuildSettings, graphs: Mapping[str, list[str]]
) -> Iterator[Compiled]:
    """Build engines for ``graphs`` (precisions by graph name) and put them into the bundle.

    The bundle is its own cache: an engine of the same graph, settings, GPU architecture and
    TensorRT version that is there already is not built again.
    """
    library = load_library(settings.target)
    for graph, precisions in graphs.items():
        for precision in precisions:
            file = bundle.file(graph, precision)
            engine = Engine(
                graph=graph,
                precision=precision,
                source=bundle.manifest.files[file],
                target=settings.target,
                version=library.__version__,
                architecture=settings.architecture,
                batches=settings.batches,
                version_compatible=settings.version_compatible,
            )
            built = engine.file not in bundle.manifest.files
            if built:
                content = build_engine(bundle.read(file), file, settings)
                bundle = bundle.with_engine(content, engine)
            yield Compiled(engine, built)


def load_library(target: Target) -> Any:
    """NVIDIA's Python module for ``target``."""
    try:
        return importlib.import_module(MODULES[target])
    except ImportError as error:
        raise MissingModelError(f"{target} is not installed ({error}): {_HINTS[target]}") from None


def build_engine(graph: bytes, name: str, settings: BuildSettings) -> bytes:
    """Compile an ONNX graph; ``name`` is for messages."""
    trt = load_library(settings.target)
    if settings.target == "tensorrt":
        _gpu_to_build_on()  # TensorRT's builder crashes rather than fails without one
    problems = _problem_log(trt)
    builder = trt.Builder(problems)
    network, _parser = _parsed(trt, builder, problems, graph, name, settings.target)
    config = builder.create_builder_config()
    config.add_optimization_profile(_profile(builder, network, settings.batches))
    if settings.target == "tensorrt":
        if settings.portable:
            config.hardware_compatibility_level = trt.HardwareCompatibilityLevel.AMPERE_PLUS
        if settings.version_compatible:
            config.set_flag(trt.BuilderFlag.VERSION_COMPATIBLE)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        reasons = "; ".join(problems.messages) or "no reason given"
        raise EngineError(f"{settings.target} could not build {name}: {reasons}")
    return bytes(plan)


def _parsed(
    trt: Any, builder: Any, problems: Any, graph: bytes, name: str, target: Target
) -> tuple[Any, Any]:
    """The network of an ONNX graph, and the parser, which owns its weights."""
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, problems)
    if not parser.parse(graph):
        reasons = "; ".join(parser.get_error(i).desc() for i in range(parser.num_errors))
        raise EngineError(f"{target} does not accept {name}: {reasons}")
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

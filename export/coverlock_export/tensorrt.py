"""From an ONNX graph to a TensorRT engine.

TensorRT (10.12 or newer, and 11) builds for the GPU it runs on; TensorRT-RTX builds ahead of
time for a range of GPUs and needs none itself. Their builders share one interface, so the code
here is the same for both. Precision is a property of the graph: networks are strongly typed,
which TensorRT 11 always is and 10 is when told so.
"""

from __future__ import annotations

import importlib
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from coverlock_sdk.engines import PORTABLE
from coverlock_sdk.errors import EngineError, MissingModelError
from coverlock_sdk.gpu import NoGpuError, first_gpu
from coverlock_sdk.pictures import write_atomically

Target = Literal["tensorrt", "tensorrt-rtx"]
TARGETS: tuple[Target, ...] = get_args(Target)

_MODULES = {"tensorrt": "tensorrt", "tensorrt-rtx": "tensorrt_rtx"}
_HINTS = {
    "tensorrt": "pip install 'coverlock-sdk[tensorrt]' with NVIDIA's package index",
    "tensorrt-rtx": "pip install 'coverlock-sdk[rtx]'",
}


@dataclass(frozen=True)
class Batches:
    """The batch sizes an engine accepts, and the one it is tuned for."""

    minimum: int = 1
    optimum: int = 8
    maximum: int = 32

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.optimum <= self.maximum:
            raise EngineError(
                f"batch sizes {self.minimum},{self.optimum},{self.maximum} are not in order: "
                "give the smallest, the usual and the largest"
            )


@dataclass(frozen=True)
class BuildSettings:
    """What an engine is built for; part of the key it is cached under."""

    target: Target
    batches: Batches = Batches()
    portable: bool = False
    """Runs on every GPU from Ampere on, a little slower than one built for its GPU alone."""
    version_compatible: bool = False
    """Runs on later minor versions of TensorRT too; such an engine contains host code."""
    optimization_level: int = 3
    """How long the builder searches, 0 to 5; TensorRT's own default."""

    def architecture(self) -> str:
        """Which GPUs the engine will run on: all from Ampere on, or those like this machine's."""
        if self.portable or self.target == "tensorrt-rtx":
            return PORTABLE
        try:
            return first_gpu().architecture
        except NoGpuError as reason:
            raise EngineError(
                f"TensorRT builds on the GPU the engine is for, but {reason}: build there, "
                "or use '--target tensorrt-rtx', which needs no GPU"
            ) from None


def load_library(target: Target) -> Any:
    """NVIDIA's Python module for ``target``."""
    try:
        return importlib.import_module(_MODULES[target])
    except ImportError as error:
        raise MissingModelError(f"{target} is not installed ({error}): {_HINTS[target]}") from None


def build_engine(graph: Path, settings: BuildSettings, timing_cache: Path | None = None) -> bytes:
    """Compile ``graph``; kernels that were timed before are looked up in ``timing_cache``."""
    trt = load_library(settings.target)
    problems = _problem_log(trt)
    builder = trt.Builder(problems)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, problems)
    if not parser.parse_from_file(str(graph)):
        reasons = "; ".join(parser.get_error(i).desc() for i in range(parser.num_errors))
        raise EngineError(f"{settings.target} does not accept {graph.name}: {reasons}")
    config = builder.create_builder_config()
    config.builder_optimization_level = settings.optimization_level
    config.add_optimization_profile(_profile(builder, network, settings.batches))
    if settings.target == "tensorrt":
        if settings.portable:
            config.hardware_compatibility_level = trt.HardwareCompatibilityLevel.AMPERE_PLUS
        if settings.version_compatible:
            config.set_flag(trt.BuilderFlag.VERSION_COMPATIBLE)
        _restore_timings(config, timing_cache)
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        reasons = "; ".join(problems.messages) or "no reason given"
        raise EngineError(f"{settings.target} could not build {graph.name}: {reasons}")
    if settings.target == "tensorrt" and timing_cache is not None:
        timing_cache.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(timing_cache, bytes(config.get_timing_cache().serialize()))
    return bytes(engine)


def _profile(builder: Any, network: Any, batches: Batches) -> Any:
    """Every input with a free first dimension takes the batch sizes; nothing else is free."""
    profile = builder.create_optimization_profile()
    for index in range(network.num_inputs):
        tensor = network.get_input(index)
        fixed = tuple(tensor.shape)[1:]
        if -1 in fixed:
            raise EngineError(f"only the batch size of '{tensor.name}' may vary, not {fixed}")
        shapes = [(n, *fixed) for n in (batches.minimum, batches.optimum, batches.maximum)]
        profile.set_shape(tensor.name, *shapes)
    return profile


def _restore_timings(config: Any, timing_cache: Path | None) -> None:
    known = timing_cache.read_bytes() if timing_cache and timing_cache.exists() else b""
    # A cache of another GPU or version is refused by TensorRT: it then starts from nothing.
    if not config.set_timing_cache(config.create_timing_cache(known), ignore_mismatch=False):
        config.set_timing_cache(config.create_timing_cache(b""), ignore_mismatch=False)


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


def trtexec_line(graph: Path, engine: Path, settings: BuildSettings, shape: dict[str, Any]) -> str:
    """The command that builds the same engine with NVIDIA's own tool."""
    words = ["trtexec" if settings.target == "tensorrt" else "tensorrt_rtx", f"--onnx={graph}"]
    if settings.target == "tensorrt":
        words.append("--stronglyTyped")
        words.append(f"--builderOptimizationLevel={settings.optimization_level}")
    sizes = zip(
        ("minShapes", "optShapes", "maxShapes"),
        (settings.batches.minimum, settings.batches.optimum, settings.batches.maximum),
        strict=True,
    )
    for option, size in sizes:
        inputs = (f"{n}:{'x'.join(map(str, (size, *fixed)))}" for n, fixed in shape.items())
        words.append(f"--{option}={','.join(inputs)}")
    if settings.portable and settings.target == "tensorrt":
        words.append("--hardwareCompatibilityLevel=ampere+")
    if settings.version_compatible:
        words.append("--versionCompatible")
    words.append(f"--saveEngine={engine}")
    return shlex.join([*words, "--skipInference"])

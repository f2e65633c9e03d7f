"""Compiled engines of a bundle: what each was built for, and whether this machine may run it.

A TensorRT engine is executable code for one kind of GPU and one version of TensorRT. It is
loaded only from a bundle whose signature was checked, and only where it belongs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.bundles.gpu import Gpu
from coverlock_sdk.errors import BundleError

Target = Literal["tensorrt", "tensorrt-rtx"]
TARGETS: tuple[Target, ...] = get_args(Target)

MODULES: dict[Target, str] = {"tensorrt": "tensorrt", "tensorrt-rtx": "tensorrt_rtx"}
"""NVIDIA's Python module for each target."""

PORTABLE = "ampere+"
"""Architecture of an engine that runs on every GPU from Ampere (compute capability 8.0) on."""


@dataclass(frozen=True)
class Engine:
    """An engine as the manifest describes it; the fields are what it is cached under."""

    graph: str
    precision: str
    source: str
    """SHA-256 of the ONNX file it was built from."""
    target: Target
    version: str
    """Of the library that built it."""
    architecture: str
    """``sm89`` and the like, or ``PORTABLE``."""
    batches: tuple[int, int, int]
    """Smallest, usual and largest batch."""
    optimization_level: int
    version_compatible: bool

    @property
    def file(self) -> str:
        """Where the engine lies in its bundle: a change of any field is another file."""
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
        where = f"{self.target}-{self.version}-{self.architecture}"
        return f"engines/{self.graph}.{self.precision}.{where}.{digest[:12]}.plan"

    def to_entry(self) -> dict[str, Any]:
        """The manifest's entry."""
        return {"file": self.file, **asdict(self)}

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any]) -> Engine:
        """Read a manifest's entry."""
        try:
            smallest, usual, largest = (int(size) for size in entry["batches"])
            engine = cls(
                graph=str(entry["graph"]),
                precision=str(entry["precision"]),
                source=str(entry["source"]),
                target=entry["target"],
                version=str(entry["version"]),
                architecture=str(entry["architecture"]),
                batches=(smallest, usual, largest),
                optimization_level=int(entry["optimization_level"]),
                version_compatible=bool(entry["version_compatible"]),
            )
            whole = engine.target in TARGETS and engine.file == entry["file"]
        except (LookupError, TypeError, ValueError):
            whole = False
        if not whole:
            raise BundleError(
                f"the entry of the engine {entry.get('file')} is damaged: compile the bundle again"
            )
        return engine

    def misfit(self, gpu: Gpu, version: str) -> str | None:
        """Why this engine cannot run on ``gpu`` with ``version`` of its library, if so."""
        if self.architecture == PORTABLE:
            if gpu.compute_capability < (8, 0):
                return f"it was built for GPUs from Ampere on, and {gpu.name} is older"
        elif self.architecture != gpu.architecture:
            return f"it was built for {self.architecture}, and {gpu.name} is {gpu.architecture}"
        if self.target == "tensorrt-rtx" and not gpu.is_rtx:
            return f"{self.target} serves RTX GPUs only, and {gpu.name} is {gpu.architecture}"
        if self.version_compatible:
            if _numbers(version) < _numbers(self.version):
                return f"it was built by {self.target} {self.version}, and {version} is older"
        elif version != self.version:
            return f"it was built by {self.target} {self.version}, and {version} is installed"
        return None


def engines_of(bundle: Bundle, graph: str, precision: str) -> Iterator[Engine]:
    """The engines of a graph in a precision; those of an older export of it are left out."""
    source = bundle.manifest.files[bundle.file(graph, precision)]
    for entry in bundle.manifest.engines:
        engine = Engine.from_entry(entry)
        if (engine.graph, engine.precision, engine.source) == (graph, precision, source):
            yield engine


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())

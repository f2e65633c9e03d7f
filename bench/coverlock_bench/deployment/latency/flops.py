"""How much a graph computes, and how much this machine could."""

from __future__ import annotations

import time
from math import prod

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference

_PEAK_SIDE = 1024


def graph_flops(content: bytes) -> int:
    """Floating-point operations of the matrix products and convolutions for one picture."""
    model = onnx.load_from_string(content)
    for value in model.graph.input:
        value.type.tensor_type.shape.dim[0].dim_value = 1
    for value in model.graph.output:
        value.type.tensor_type.shape.dim[0].ClearField("dim_param")
    del model.graph.value_info[:]
    model = shape_inference.infer_shapes(model, data_prop=True)
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.value_info, *model.graph.output)
    }
    shapes |= {c.name: list(c.dims) for c in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            shapes[node.output[0]] = list(numpy_helper.to_array(node.attribute[0].t).shape)
    return sum(_node_flops(node, shapes) for node in model.graph.node)


def _node_flops(node: onnx.NodeProto, shapes: dict[str, list[int]]) -> int:
    if node.op_type not in ("MatMul", "Gemm", "Conv"):
        return 0
    result = prod(shapes[node.output[0]])
    if node.op_type == "Conv":
        return 2 * result * prod(shapes[node.input[1]][1:])
    transposed = any(a.name == "transA" and a.i for a in node.attribute)
    return 2 * result * shapes[node.input[0]][0 if transposed else -1]


def matmul_peak(threads: int, rounds: int = 7) -> float:
    """Floating-point operations a second of a large float32 matrix product, at its best."""
    import torch

    torch.set_num_threads(threads)
    generator = np.random.default_rng(0)
    left, right = (
        torch.from_numpy(generator.standard_normal((_PEAK_SIDE, _PEAK_SIDE), dtype=np.float32))
        for _ in range(2)
    )
    best = min(_seconds(left, right) for _ in range(rounds))
    return 2 * _PEAK_SIDE**3 / best


def _seconds(left: object, right: object) -> float:
    import torch

    start = time.process_time()
    torch.mm(left, right)  # type: ignore[call-overload]
    return time.process_time() - start

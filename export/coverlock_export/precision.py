"""The fp32 master in half precision and in 8-bit integers.

Whatever computes the picture or the code itself stays in fp32: preprocessing, resampling (and so
the thumbnail of a hash that registers), the projector of a network that hashes, and sums over many
values. The costly layers in between are reduced.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from coverlock_export.graphs import quiet, scope_of
from coverlock_sdk.arrays import Pixels
from coverlock_sdk.bundles.bundle import INPUT

_HALVED_OPERATIONS = {
    "Add", "BatchNormalization", "Concat", "Conv", "Gelu", "Gemm", "LeakyRelu", "MatMul", "Mul",
    "Relu", "Reshape", "Sigmoid", "Slice", "Softmax", "Split", "Squeeze", "Sub", "Tanh",
    "Transpose",
}  # fmt: skip
"""What half precision is good enough for. Sums over many values, roots and quotients are not.

Softmax is one of those, but NVIDIA's builder fuses attention only as a whole and fails on a cast
inside it; runtimes add up in fp32 there of their own accord.
"""

_EXACT_SCOPES = ("preprocessing", "resampling", "hash", "hash.backbone")
"""Modules whose own operations (not those of their layers) stay exact: constant products."""

_PROJECTOR = "hash.head"

_BACKBONE = "hash.backbone."

_QUANTISED_OPERATIONS = ("Conv", "Gemm", "MatMul")


def to_fp16(master: onnx.ModelProto) -> onnx.ModelProto:
    """Layers and their weights in half precision; inputs, outputs and the rest as they are."""
    model = onnx.shape_inference.infer_shapes(master, strict_mode=True, data_prop=True)
    values = (*model.graph.value_info, *model.graph.input, *model.graph.output)
    floats = {v.name for v in values if v.type.tensor_type.elem_type == TensorProto.FLOAT}
    constants = {
        tensor.name: tensor
        for tensor in model.graph.initializer
        if tensor.data_type == TensorProto.FLOAT
    }
    exact = set(exact_nodes(master))
    results = {output.name for output in model.graph.output}
    nodes = _Halving(floats, constants)
    for node in model.graph.node:
        keeps = node.name in exact or not results.isdisjoint(node.output)
        nodes.add(node, halved=node.op_type in _HALVED_OPERATIONS and not keeps)
    del model.graph.node[:], model.graph.initializer[:], model.graph.value_info[:]
    model.graph.node.extend(nodes.nodes)
    used = {name for node in nodes.nodes for name in node.input}
    model.graph.initializer.extend(t for t in master.graph.initializer if t.name in used)
    model.graph.initializer.extend(nodes.weights.values())
    onnx.checker.check_model(model, full_check=True)
    return model


class _Halving:
    """Copies nodes in order and casts where a value is wanted in the other precision."""

    def __init__(self, floats: set[str], constants: dict[str, TensorProto]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, TensorProto] = {}
        self._floats = floats
        self._constants = constants
        self._halved: set[str] = set()  # values that their node computes in half precision
        self._cast: set[str] = set()

    def add(self, node: onnx.NodeProto, halved: bool) -> None:
        """Copy ``node``, in half precision where it deals in floats and ``halved`` is wanted."""
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for position, name in enumerate(node.input):
            copy.input[position] = self._wanted(name, halved)
        self.nodes.append(copy)
        if halved:
            self._halved.update(name for name in node.output if name in self._floats)

    def _wanted(self, name: str, halved: bool) -> str:
        if name in self._constants:
            if not halved:
                return name
            half = f"{name}.fp16"
            if half not in self.weights:
                values = numpy_helper.to_array(self._constants[name]).astype(np.float16)
                self.weights[half] = numpy_helper.from_array(values, half)
            return half
        if name not in self._floats or (name in self._halved) == halved:
            return name
        other, kind = (
            (f"{name}.fp16", TensorProto.FLOAT16) if halved else (f"{name}.fp32", TensorProto.FLOAT)
        )
        if other not in self._cast:
            self.nodes.append(helper.make_node("Cast", [name], [other], f"cast {other}", to=kind))
            self._cast.add(other)
        return other


def to_int8(master: onnx.ModelProto, photos: Pixels) -> onnx.ModelProto:
    """Symmetric signed 8-bit weights and activations (QDQ), ranges taken from ``photos``.

    The first layer of each network stays in fp32 as well, and so do the matrices of a transformer
    that hashes. This is the one layout that both NVIDIA's parser and the processors' runtimes
    accept.
    """
    from onnxruntime.quantization import (
        CalibrationMethod,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    with tempfile.TemporaryDirectory() as folder, quiet():
        source, target = Path(folder) / "fp32.onnx", Path(folder) / "int8.onnx"
        onnx.save(master, source)
        quantize_static(
            source,
            target,
            _Photos(photos),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=list(_QUANTISED_OPERATIONS),
            nodes_to_exclude=[
                *exact_nodes(master),
                *first_layers(master),
                *transformer_layers(master),
            ],
            per_channel=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
            extra_options={
                "ActivationSymmetric": True,
                "WeightSymmetric": True,
                "QuantizeBias": False,
            },
        )
        model = onnx.load(target)
    del model.graph.value_info[:]
    onnx.checker.check_model(model, full_check=True)
    return model


def exact_nodes(master: onnx.ModelProto) -> Iterator[str]:
    """Names of the nodes that stay in fp32 in every precision."""
    for node in master.graph.node:
        scope = scope_of(node)
        if scope in _EXACT_SCOPES or scope == _PROJECTOR or scope.startswith(f"{_PROJECTOR}."):
            yield node.name


def first_layers(master: onnx.ModelProto) -> Iterator[str]:
    """Names of the layers that see the picture itself, whose finest steps are the mark."""
    exact = set(exact_nodes(master))
    deeper: set[str] = set()  # values that have been through a layer
    for node in master.graph.node:
        layer = node.op_type in _QUANTISED_OPERATIONS and node.name not in exact
        if not deeper.isdisjoint(node.input):
            deeper.update(node.output)
        elif layer:
            yield node.name
            deeper.update(node.output)


def transformer_layers(master: onnx.ModelProto) -> Iterator[str]:
    """Names of the matrix products of a transformer that hashes.

    Rounding their weights alone to 8 bits flips 1 % of DINOv2's bits, and a few huge channels of
    their activations make that 16 %.
    """
    for node in master.graph.node:
        if node.op_type == "MatMul" and scope_of(node).startswith(_BACKBONE):
            yield node.name


class _Photos:
    """Calibration photos, one at a time, as ONNX Runtime's quantiser asks for them."""

    def __init__(self, photos: Pixels) -> None:
        self._rows = iter(photos)

    def get_next(self) -> dict[str, Any] | None:
        photo = next(self._rows, None)
        return None if photo is None else {INPUT: photo[None]}

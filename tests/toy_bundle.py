"""A bundle of two matrix products, made without PyTorch in milliseconds.

It deploys the additive test watermark with a hash that is a random projection, or with ``octave``,
so that marked pictures verify, and ``toy_lock()`` is the same thing in the authoring layer.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.utils import Extractor

from coverlock_sdk import Calibration, ImageHash, Verifier, wrap
from coverlock_sdk.bundles.bundle import (
    INPUT,
    OUTPUTS,
    PAYLOADS,
    Bundle,
    HostPlugin,
    Manifest,
    building,
    seal,
)
from coverlock_sdk.bundles.bundle_lock import digest_of
from coverlock_sdk.images.resampling import resample_matrix
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from tests.conftest import AdditiveMark

BITS, SIDE, SEEN = 48, 128, 16


class ProjectionHash(ImageHash):
    """Random differences between the parts of a thumbnail."""

    name = "projection"
    input_size = (SIDE, SIDE)
    calibration = Calibration(scale=8.0)

    def logits(self, images):
        shrink = resample_matrix(SIDE, SEEN)
        thumbnails = shrink @ images.mean(axis=1) @ shrink.T
        return thumbnails.reshape(len(images), -1) @ projection()


def projection() -> np.ndarray:
    weights = np.random.default_rng(3).standard_normal((SEEN * SEEN, 256))
    return (weights - weights.mean(axis=0)).astype(np.float32)


def toy_lock(key=None, image_hash: ImageHash | None = None, registry=None) -> LockedWatermark:
    return wrap(AdditiveMark(BITS), hash=image_hash or ProjectionHash(), key=key, registry=registry)


def put_runtime(verifier: Verifier, runtime: Any) -> Any:
    """Let ``runtime`` run the graph of an open verifier."""
    verifier._runner.batcher.runtime = runtime
    return runtime


def write_toy_bundle(
    out: Path,
    key_fingerprint: str | None = None,
    plugin: HostPlugin | None = None,
    embedding: bool = False,
    image_hash: ImageHash | None = None,
) -> Bundle:
    """The bundle; with ``plugin``, of the hash alone; with ``embedding``, one that marks too."""
    watermark, image_hash = AdditiveMark(BITS), image_hash or ProjectionHash()
    graph = "hash" if plugin else "verify"
    with building(out) as folder:
        model = _model(watermark, image_hash)
        if plugin:
            extractor = Extractor(model)
            model = extractor.extract_model([INPUT], [OUTPUTS[1]])
        onnx.save(model, folder / f"{graph}.onnx")
        graphs = {graph: {"fp32": f"{graph}.onnx"}}
        if embedding:
            extractor = Extractor(model)
            onnx.save(extractor.extract_model([INPUT], [OUTPUTS[1]]), folder / "hash.onnx")
            onnx.save(_encoder(watermark), folder / "embed.onnx")
            graphs |= {"hash": {"fp32": "hash.onnx"}, "embed": {"fp32": "embed.onnx"}}
        manifest = Manifest(
            watermark=watermark.name,
            payload_bits=BITS,
            calibration=watermark.calibration,
            size=(SIDE, SIDE),
            hash=image_hash.name,
            hash_size=(SIDE, SIDE),
            bands=image_hash.bands,
            hash_calibration=image_hash.calibration,
            hash_digest=digest_of(image_hash),
            fpr=1e-6,
            opset=20,
            key_fingerprint=key_fingerprint,
            graphs=graphs,
            plugin=plugin,
        )
        seal(folder, manifest)
    return Bundle.open(out)


def _model(watermark: AdditiveMark, image_hash: ImageHash) -> onnx.ModelProto:
    described = (3, SIDE, SIDE) if image_hash.registers else (256,)
    shrink = resample_matrix(SIDE, SEEN)
    constants = {
        "white": np.float32(255),
        "patterns": _high_pass(watermark.patterns).T / 10,
        "rows": shrink,
        "columns": shrink.T,
        "flat": np.array([-1, SIDE * SIDE], np.int64),
        "small": np.array([-1, SEEN * SEEN], np.int64),
        "projection": projection(),
        "channels": np.array([3], np.int64),
    }
    nodes = [
        helper.make_node("Cast", [INPUT], ["values"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["values", "white"], ["unit"]),
        helper.make_node("ReduceMean", ["unit", "channels"], ["grey"], keepdims=0),
        helper.make_node("Reshape", ["grey", "flat"], ["vector"]),
        helper.make_node("MatMul", ["vector", "patterns"], [OUTPUTS[0]]),
    ]
    hashing = [
        helper.make_node("MatMul", ["rows", "grey"], ["shorter"]),
        helper.make_node("MatMul", ["shorter", "columns"], ["thumbnail"]),
        helper.make_node("Reshape", ["thumbnail", "small"], ["features"]),
        helper.make_node("MatMul", ["features", "projection"], [OUTPUTS[1]]),
    ]
    if image_hash.registers:
        hashing = [helper.make_node("Transpose", ["unit"], [OUTPUTS[1]], perm=[0, 3, 1, 2])]
    return make_model(
        [*nodes, *hashing],
        constants,
        {INPUT: (TensorProto.UINT8, ["N", SIDE, SIDE, 3])},
        {
            OUTPUTS[0]: (TensorProto.FLOAT, ["N", BITS]),
            OUTPUTS[1]: (TensorProto.FLOAT, ["N", *described]),
        },
    )


def _encoder(watermark: AdditiveMark) -> onnx.ModelProto:
    constants = {
        "one": np.float32(1),
        "two": np.float32(2),
        "patterns": watermark.patterns * np.float32(2 * watermark.strength / np.sqrt(BITS)),
        "shape": np.array([-1, 1, SIDE, SIDE], np.int64),
        "colours": np.array([1, 3, 1, 1], np.int64),
        "none": np.float32(0),
        "channels": np.array([1, 2, 3], np.int64),
    }
    nodes = [
        helper.make_node("Cast", [PAYLOADS], ["bits"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["bits", "two"], ["doubled"]),
        helper.make_node("Sub", ["doubled", "one"], ["signs"]),
        helper.make_node("MatMul", ["signs", "patterns"], ["flat"]),
        helper.make_node("Reshape", ["flat", "shape"], ["grey"]),
        helper.make_node("Tile", ["grey", "colours"], ["coloured"]),
        helper.make_node("Cast", [INPUT], ["values"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["values", "channels"], ["mean"], keepdims=1),
        helper.make_node("Mul", ["mean", "none"], ["nothing"]),
        helper.make_node("Add", ["coloured", "nothing"], ["residuals"]),
    ]
    return make_model(
        nodes,
        constants,
        {
            INPUT: (TensorProto.UINT8, ["N", SIDE, SIDE, 3]),
            PAYLOADS: (TensorProto.UINT8, ["N", BITS]),
        },
        {"residuals": (TensorProto.FLOAT, ["N", 3, SIDE, SIDE])},
    )


Values = dict[str, tuple[int, list[int | str]]]
"""Inputs or outputs of a graph: type and shape by name."""


def make_model(
    nodes: list[onnx.NodeProto],
    constants: dict[str, Any],
    inputs: Values,
    outputs: Values,
    opset: int = 20,
) -> onnx.ModelProto:
    """A graph of a few nodes as a model."""
    values = [
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in side.items()]
        for side in (inputs, outputs)
    ]
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "made by hand", *values, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def _high_pass(patterns: np.ndarray) -> np.ndarray:
    """The watermark's blur moved onto its patterns, which is the same by symmetry."""
    images = patterns.reshape(-1, SIDE, SIDE)
    blurred = sum(np.roll(images, (dy, dx), axis=(1, 2)) for dy in (-1, 0, 1) for dx in (-1, 0, 1))
    return (images - blurred / 9).reshape(len(patterns), -1).astype(np.float32)

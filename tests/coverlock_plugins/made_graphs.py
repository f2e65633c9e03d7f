"""ONNX graphs and TorchScript modules with the signatures of published ones, made by hand.

They mark with one fixed random pattern a bit and read by correlation, so that what surrounds them
can be tested: ranges, sizes, normalisation, and the files' way into the cache.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.toy_bundle import make_model

SIDE = 256
CELLS = 32
"""Patterns are this many cells wide, so that they survive resampling."""


def patterns(bits: int) -> np.ndarray:  # type: ignore[type-arg]
    """Orthonormal patterns of cells, without a mean: (bits, 1, CELLS, CELLS)."""
    drawn = np.random.RandomState(5).standard_normal((CELLS * CELLS, bits))
    columns = np.linalg.qr(drawn - drawn.mean(axis=0))[0]
    return columns.T.reshape(bits, 1, CELLS, CELLS).astype(np.float32)


def encoder(path: Path, bits: int, strength: float, adds_cover: bool, names: list[str]) -> Path:
    """(picture, secret) -> the marked picture, or the mark alone."""
    nodes = [
        helper.make_node("Mul", [names[1], "two"], ["doubled"]),
        helper.make_node("Sub", ["doubled", "one"], ["signs"]),
        helper.make_node("MatMul", ["signs", "patterns"], ["flat"]),
        helper.make_node("Reshape", ["flat", "plane"], ["cells"]),
        helper.make_node("Resize", ["cells", "", "scales"], ["mark"], mode="nearest"),
        helper.make_node("Mul", [names[0], "zero"], ["blank"]),
        helper.make_node("Add", [names[0] if adds_cover else "blank", "mark"], [names[2]]),
    ]
    flat = strength * CELLS * patterns(bits).reshape(bits, -1) / np.sqrt(bits)
    constants = {
        "two": np.float32(2),
        "one": np.float32(1),
        "zero": np.float32(0),
        "patterns": flat.astype(np.float32),
        "plane": np.array([1, 1, CELLS, CELLS]),
        "scales": np.array([1, 1, SIDE / CELLS, SIDE / CELLS], np.float32),
    }
    inputs = {names[0]: [1, 3, SIDE, SIDE], names[1]: [1, bits]}
    return _save(path, nodes, constants, inputs, {names[2]: [1, 3, SIDE, SIDE]})


def decoder(path: Path, bits: int, side: int, names: list[str]) -> Path:
    """picture -> logits."""
    nodes = [
        helper.make_node("Resize", [names[0], "", "", "small"], ["seen"], mode="linear"),
        helper.make_node("Conv", ["seen", "kernels"], ["correlations"]),
        helper.make_node("Reshape", ["correlations", "row"], [names[1]]),
    ]
    constants = {
        "small": np.array([1, 3, CELLS, CELLS]),
        "kernels": np.repeat(patterns(bits), 3, axis=1) / 3,
        "row": np.array([1, bits]),
    }
    return _save(path, nodes, constants, {names[0]: [1, 3, side, side]}, {names[1]: [1, bits]})


def detector(path: Path, bits: int, names: list[str]) -> Path:
    """picture -> one plane that says every pixel is marked, and one for each bit."""
    nodes = [
        helper.make_node("Resize", [names[0], "", "", "small"], ["seen"], mode="linear"),
        helper.make_node("Conv", ["seen", "kernels"], ["correlations"]),
        helper.make_node("Concat", ["present", "correlations"], ["answers"], axis=1),
        helper.make_node("Expand", ["answers", "planes"], [names[1]]),
    ]
    constants = {
        "small": np.array([1, 3, CELLS, CELLS]),
        "kernels": np.repeat(patterns(bits), 3, axis=1) / 3,
        "present": np.ones((1, 1, 1, 1), np.float32),
        "planes": np.array([1, 1 + bits, SIDE, SIDE]),
    }
    shape = {names[1]: [1, 1 + bits, SIDE, SIDE]}
    return _save(path, nodes, constants, {names[0]: [1, 3, SIDE, SIDE]}, shape)


def _save(
    path: Path,
    nodes: list[onnx.NodeProto],
    constants: dict[str, np.ndarray],  # type: ignore[type-arg]
    inputs: dict[str, list[int]],
    outputs: dict[str, list[int]],
) -> Path:
    kinds = [
        {name: (TensorProto.FLOAT, shape) for name, shape in side.items()}
        for side in (inputs, outputs)
    ]
    model = make_model(nodes, constants, *kinds, opset=17)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path

"""NeuralHash is Apple's and is not here: a graph of the same operators stands for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from coverlock_bench.hashes.neural_hash import BITS, HEADER, SIDE, NeuralHash  # noqa: E402
from coverlock_bench.hashes.opponents import opponent  # noqa: E402
from coverlock_sdk.errors import MissingModelError  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph that uses every operator of NeuralHash once, and a projection."""
    folder = tmp_path_factory.mktemp("neuralhash")
    rng = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)

    same = {"auto_pad": "SAME_UPPER", "group": 1}
    half = SIDE // 4
    nodes = [
        helper.make_node(
            "Conv", ["image", "k"], ["a"], kernel_shape=[3, 3], strides=[4, 4], **same
        ),
        helper.make_node("InstanceNormalization", ["a", "s", "b"], ["n"], epsilon=1e-6),
        helper.make_node("Add", ["n", "three"], ["shifted"]),
        helper.make_node("Clip", ["shifted", "zero", "six"], ["clipped"]),
        helper.make_node("Mul", ["n", "clipped"], ["swish"]),
        helper.make_node("Relu", ["swish"], ["r"]),
        helper.make_node("AveragePool", ["r"], ["p"], kernel_shape=[half, half], strides=[1, 1]),
        helper.make_node(
            "Conv", ["p", "o", "c"], ["out"], kernel_shape=[1, 1], strides=[1, 1], group=1
        ),
    ]
    constants = [
        numpy_helper.from_array(np.array(value, dtype=np.float32), name)
        for name, value in (("zero", 0.0), ("six", 6.0), ("three", 3.0))
    ]
    weights = [weight("k", 8, 3, 3, 3), weight("s", 8), weight("b", 8), weight("o", 128, 8, 1, 1)]
    graph = helper.make_graph(
        nodes,
        "hash",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 128, 1, 1])],
        [*constants, *weights, weight("c", 128)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8)
    onnx.save(model, str(folder / "model.onnx"))
    matrix = rng.standard_normal((BITS, 128)).astype(np.float32)
    (folder / "neuralhash_128x96_seed1.dat").write_bytes(bytes(HEADER) + matrix.tobytes())
    return folder


def test_pytorch_computes_what_the_graph_says(folder: Path) -> None:
    image = np.random.default_rng(1).random((1, 3, SIDE, SIDE), dtype=np.float32)
    session = runtime.InferenceSession(
        str(folder / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    [expected] = session.run(None, {"image": image * 2 - 1})
    network = NeuralHash(folder)
    picture = torch.from_numpy(image).requires_grad_(True)
    logits = network(picture)
    projected = expected.reshape(1, 128) @ network.projection.numpy().T
    np.testing.assert_allclose(logits.detach().numpy(), projected, rtol=1e-3, atol=1e-3)
    [gradient] = torch.autograd.grad(logits.sum(), picture)
    assert gradient.abs().sum() > 0


def test_without_the_weights_the_command_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    with pytest.raises(MissingModelError, match="coverlock fetch neuralhash"):
        opponent("neuralhash")

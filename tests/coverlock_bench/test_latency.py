from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from coverlock_bench.deployment.latency.flops import graph_flops, matmul_peak
from coverlock_bench.deployment.latency.run import run_suite
from coverlock_bench.deployment.latency.subjects import Subject, jpeg_files
from coverlock_bench.deployment.tables import LATENCY
from coverlock_export.exporting import Request, export_bundle
from coverlock_sdk import wrap
from coverlock_sdk.testing import natural_pictures
from tests.coverlock_export.test_exporting import ExportableMark


@pytest.fixture(scope="module")
def subject(tmp_path_factory) -> Subject:
    folder = tmp_path_factory.mktemp("latency")
    photos = []
    for number, picture in enumerate(natural_pictures(32, (128, 128), seed=5)):
        photos.append(folder / f"{number:02}.png")
        Image.fromarray(picture).save(photos[-1])
    lock = wrap(ExportableMark(), hash="octave")
    request = Request(lock, photos, precisions=["fp32"], count=4)
    bundle = export_bundle(request, folder / "bundle", lambda *_: lambda: None)
    return Subject(bundle, lock, jpeg_files(photos, 4, side=160))


@pytest.mark.slow
def test_every_stage_and_runtime_is_timed_against_torch(subject, tmp_path):
    saved = [f"--benchmark-storage=file://{tmp_path}", "--benchmark-autosave"]
    figures = run_suite([subject], (1, 4), ("fp32",), 2, 1, 1, clock="cpu", extra=saved)
    timed = figures["subjects"][subject.name]
    rows = {(r["stage"], r["runtime"], r["precision"], r["batch"]): r for r in timed["rows"]}
    for batch in (1, 4):
        for stage in ("decode", "resize", "statistics"):
            assert rows[stage, "host", "-", batch]["milliseconds"] > 0
        for stage in ("hash", "decoder", "network", "end to end"):
            assert rows[stage, "torch", "fp32", batch]["ratio_to_torch"]["median"] == 1
            assert rows[stage, "cpu", "fp32", batch]["ratio_to_torch"]["median"] > 0
    assert 0 < rows["network", "cpu", "fp32", 4]["of_matmul_peak"] < 2
    assert timed["runtimes"]["cpu fp32"]["providers"] == ["CPUExecutionProvider"]
    assert any("tensorrt" in name for name in figures["left_out"])
    assert "cpu fp32" in LATENCY.markdown(figures)
    assert len(list(tmp_path.rglob("*.json"))) == 1


def test_floating_point_operations_of_a_known_graph():
    weights = {
        "kernel": np.zeros((8, 3, 3, 3), np.float32),
        "matrix": np.zeros((8 * 6 * 6, 10), np.float32),
        "shape": np.array([-1, 8 * 6 * 6], np.int64),
    }
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "kernel"], ["c"]),
            helper.make_node("Reshape", ["c", "shape"], ["f"]),
            helper.make_node("MatMul", ["f", "matrix"], ["y"]),
        ],
        "known",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 10])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model: onnx.ModelProto = helper.make_model(graph)
    convolution = 2 * (8 * 6 * 6) * (3 * 3 * 3)
    assert graph_flops(model.SerializeToString()) == convolution + 2 * (8 * 6 * 6) * 10


def test_the_peak_of_this_machine_is_plausible():
    assert 1e8 < matmul_peak(threads=1, rounds=2) < 1e13

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from coverlock_sdk.cli import build_cli

for package in ("torch", "onnx", "onnxruntime"):
    pytest.importorskip(package)


@pytest.mark.slow
def test_nano_is_timed_beside_a_network_of_the_shape_of_dinov2(tmp_path):
    out = tmp_path / "latency.json"
    arguments = ["bench", "hash-latency", "--hash", "nano", "--turns", "3", "-o", str(out)]
    result = CliRunner().invoke(build_cli(), arguments)
    assert result.exit_code == 0, result.output
    figures = json.loads(out.read_text())["figures"]
    assert figures["dinov2-s"]["speed_up"] == 1
    assert figures["nano"]["speed_up"] > 5


def test_a_hash_that_makes_no_graph_is_refused(tmp_path):
    arguments = ["bench", "hash-latency", "--hash", "mhdw", "-o", str(tmp_path / "latency.json")]
    result = CliRunner().invoke(build_cli(), arguments)
    assert result.exit_code == 2
    assert "'mhdw' has no PyTorch module" in result.output

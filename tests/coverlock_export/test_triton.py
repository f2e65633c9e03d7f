import json
import os
import shutil
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from coverlock_export.triton import MODEL, model_config, write_model_repository
from coverlock_sdk import Verifier
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.bundles.engines import Engine
from coverlock_sdk.bundles.signing import generate_signing_key
from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import CoverLockError, RuntimeUnavailableError
from coverlock_sdk.verifier import triton_runtime
from coverlock_sdk.verifier.verifier import Settings
from tests.toy_bundle import toy_lock, write_toy_bundle


@pytest.fixture
def bundle(tmp_path):
    return write_toy_bundle(tmp_path / "bundle")


def with_engine(bundle: Bundle, target: str) -> Bundle:
    source = bundle.manifest.files["verify.onnx"]
    engine = Engine("verify", "fp32", source, target, "11.4.0", "sm89", (1, 16, 64), False)
    return bundle.with_engine(b"a plan", engine)


def parsed(text: str):
    """The configuration as Triton's own protobuf understands it; a misspelt field is an error."""
    reason = "pip install 'coverlock-sdk[triton]'"
    protobuf = pytest.importorskip("tritonclient.grpc.model_config_pb2", reason=reason)
    from google.protobuf import text_format

    with pytest.raises(text_format.ParseError):
        text_format.Parse(text.replace("max_batch_size", "max_batch"), protobuf.ModelConfig())
    return text_format.Parse(text, protobuf.ModelConfig())


def test_the_graph_becomes_a_model_of_the_onnx_backend(bundle, tmp_path):
    line = ["triton", str(bundle.path), "--out", str(tmp_path / "repo"), "--instances", "2"]
    result = CliRunner().invoke(build_cli(), line)
    assert result.exit_code == 0, result.output
    model = tmp_path / "repo" / MODEL
    assert (model / "1" / "model.onnx").read_bytes() == bundle.read("verify.onnx")
    config = parsed((model / "config.pbtxt").read_text())
    assert (config.backend, config.max_batch_size) == ("onnxruntime", 32)
    assert list(config.input[0].dims) == [128, 128, 3]
    assert [(o.name, list(o.dims)) for o in config.output] == [
        ("decoder_logits", [48]),
        ("descriptions", [256]),
    ]
    assert config.dynamic_batching.max_queue_delay_microseconds == 2000
    assert config.instance_group[0].count == 2
    assert not list((tmp_path / "repo").glob(".*"))


@pytest.fixture
def release(bundle, tmp_path):
    """Signs the bundle with an engine in it; the public key."""
    pytest.importorskip("cryptography")
    with_engine(bundle, "tensorrt")
    public = generate_signing_key(tmp_path / "release.pem")
    Bundle.open(bundle.path).sign(tmp_path / "release.pem")
    return public


def test_an_engine_becomes_a_plan_on_the_gpu(bundle, release, tmp_path):
    line = ["triton", str(bundle.path), "--out", str(tmp_path / "repo"), "--trust", str(release)]
    result = CliRunner().invoke(build_cli(), line)
    assert result.exit_code == 0, result.output
    model = tmp_path / "repo" / MODEL
    assert (model / "1" / "model.plan").read_bytes() == b"a plan"
    config = parsed((model / "config.pbtxt").read_text())
    assert (config.backend, config.max_batch_size) == ("tensorrt", 64)
    assert config.instance_group[0].kind == config.instance_group[0].KIND_GPU
    assert list(config.dynamic_batching.preferred_batch_size) == [16, 64]


def test_an_engine_whose_signature_nobody_checked_never_reaches_the_server(
    bundle, release, tmp_path
):
    line = ["triton", str(bundle.path), "--out", str(tmp_path / "repo")]
    result = CliRunner().invoke(build_cli(), line)
    assert result.exit_code == 0, result.output
    assert "executable code" in result.stderr
    assert "give --trust" in result.stderr
    assert [file.name for file in (tmp_path / "repo" / MODEL / "1").iterdir()] == ["model.onnx"]
    stranger = generate_signing_key(tmp_path / "stranger.pem")
    refused = CliRunner().invoke(build_cli(), [*line[:-1], "elsewhere", "--trust", str(stranger)])
    assert refused.exit_code == 2
    assert "signed by somebody else" in refused.stderr


def test_triton_does_not_run_engines_of_tensorrt_rtx(bundle, tmp_path):
    signed = replace(with_engine(bundle, "tensorrt-rtx"), signed=True)
    model = write_model_repository(signed, tmp_path / "repo")
    assert (model.folder / "1" / "model.onnx").exists()
    assert "does not run engines of tensorrt-rtx" in str(model.passed_over)


def test_an_engine_that_takes_no_single_picture_is_not_for_triton(bundle, tmp_path):
    source = bundle.manifest.files["verify.onnx"]
    large = Engine("verify", "fp32", source, "tensorrt", "11.4.0", "sm89", (4, 16, 64), False)
    signed = replace(bundle.with_engine(b"a plan", large), signed=True)
    model = write_model_repository(signed, tmp_path / "repo")
    assert (model.folder / "1" / "model.onnx").exists()
    assert "no fewer than 4 pictures" in model.passed_over[large.file]


def test_no_secret_and_no_key_in_the_repository(tmp_path, key):
    bundle = write_toy_bundle(tmp_path / "bundle", key.fingerprint)
    assert key.fingerprint not in model_config(bundle, None)


def test_without_an_address_the_runtime_says_so(bundle, monkeypatch):
    monkeypatch.delenv("COVERLOCK_TRITON", raising=False)
    with pytest.raises(RuntimeUnavailableError, match="set COVERLOCK_TRITON"):
        Verifier.open(bundle, "triton")


@pytest.fixture
def hung_server():
    """The address of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_server_that_hangs_is_given_up(bundle, hung_server, monkeypatch):
    grpc = pytest.importorskip("tritonclient.grpc", reason="pip install 'coverlock-sdk[triton]'")
    monkeypatch.setattr(triton_runtime, "TIMEOUT", 0.3)
    client = grpc.InferenceServerClient(hung_server)
    runtime = triton_runtime.TritonRuntime(grpc, client, hung_server, 32)
    with pytest.raises(CoverLockError, match="did not answer 2 pictures within 0.3 seconds"):
        runtime.run(np.zeros((2, 128, 128, 3), np.uint8))
    runtime.close()
    monkeypatch.setenv("COVERLOCK_TRITON", hung_server)
    with pytest.raises(RuntimeUnavailableError, match=f"{hung_server} does not serve"):
        Verifier.open(bundle, "triton")


def test_batches_are_split_to_what_the_server_takes():
    grpc = pytest.importorskip("tritonclient.grpc", reason="pip install 'coverlock-sdk[triton]'")
    sent = []

    class Server:
        """Answers with the first value of each picture."""

        def infer(self, model, tensors, client_timeout):
            count, height, width, channels = tensors[0].shape()
            sent.append(count)
            content = np.frombuffer(tensors[0]._get_content(), np.uint8)
            values = content.reshape(count, height, width, channels)[:, 0, 0, :1]
            return SimpleNamespace(as_numpy=lambda name: values)

    images = np.arange(7, dtype=np.uint8)[:, None, None, None] * np.ones((1, 4, 4, 3), np.uint8)
    decoded, described = triton_runtime.TritonRuntime(grpc, Server(), "nowhere", 3).run(images)
    assert sent == [3, 3, 1]
    assert decoded[:, 0].tolist() == described[:, 0].tolist() == list(range(7))


BACKEND = """
import sys
sys.path.insert(0, {packages!r})
from pathlib import Path
import numpy as np
import onnxruntime
import triton_python_backend_utils as triton


class TritonPythonModel:
    def initialize(self, arguments):
        folder = Path(arguments["model_repository"]) / arguments["model_version"]
        self.session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
        self.names = [output.name for output in self.session.get_outputs()]

    def execute(self, requests):
        parts = [triton.get_input_tensor_by_name(r, "images").as_numpy() for r in requests]
        outputs = self.session.run(self.names, {{"images": np.concatenate(parts)}})
        ends = np.cumsum([len(part) for part in parts])[:-1]
        split = zip(*(np.split(output, ends) for output in outputs))
        return [
            triton.InferenceResponse([triton.Tensor(n, v) for n, v in zip(self.names, values)])
            for values in split
        ]
"""
"""Stands in for onnxruntime's own: the server in nvidia-pytriton has the Python backend only."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A real tritonserver, without a GPU, on the repository of the toy bundle: its address."""
    pytest.importorskip("tritonclient.grpc", reason="pip install 'coverlock-sdk[triton]'")
    python = os.environ.get("COVERLOCK_PYTRITON")
    if not python:
        pytest.skip(
            "COVERLOCK_PYTRITON does not name a Python that has nvidia-pytriton and onnxruntime "
            "(it needs an environment of its own: it pins NumPy 1)"
        )
    folder = tmp_path_factory.mktemp("triton")
    where = json.loads(subprocess.check_output([python, "-c", LOCATIONS], text=True))
    triton = Path(where["package"]) / "tritonserver"
    shutil.copytree(triton / "backends", folder / "backends")
    stub = triton / "python_backend_stubs" / where["version"] / "triton_python_backend_stub"
    shutil.copy(stub, folder / "backends" / "python")
    (folder / "backends" / "onnxruntime").mkdir()
    backend = BACKEND.format(packages=where["packages"])
    (folder / "backends" / "onnxruntime" / "model.py").write_text(backend)
    bundle = write_toy_bundle(folder / "bundle")
    write_model_repository(bundle, folder / "repository")
    ports = [free_port() for _ in range(3)]
    names = ("http", "grpc", "metrics")
    libraries = f"{where['libpython']}:{Path(where['package']).parent / 'nvidia_pytriton.libs'}"
    process = subprocess.Popen(
        [
            str(triton / "bin" / "tritonserver"),
            f"--model-repository={folder / 'repository'}",
            f"--backend-directory={folder / 'backends'}",
            *(f"--{name}-port={port}" for name, port in zip(names, ports, strict=True)),
        ],
        env={**os.environ, "LD_LIBRARY_PATH": libraries},
        stdout=(folder / "log").open("w"),
        stderr=subprocess.STDOUT,
    )
    address = f"127.0.0.1:{ports[1]}"
    try:
        wait_until_ready(process, address, folder / "log")
        yield bundle, address
    finally:
        process.terminate()
        process.wait(60)


LOCATIONS = """
import importlib.util, json, sysconfig
package = importlib.util.find_spec("pytriton").submodule_search_locations[0]
print(json.dumps({
    "package": package,
    "packages": sysconfig.get_path("purelib"),
    "libpython": sysconfig.get_config_var("LIBDIR"),
    "version": sysconfig.get_python_version(),
}))
"""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def wait_until_ready(process: subprocess.Popen, address: str, log: Path) -> None:
    import tritonclient.grpc as grpc

    client = grpc.InferenceServerClient(address)
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if client.is_model_ready(MODEL):
                return
        except grpc.InferenceServerException:
            time.sleep(0.5)
    raise AssertionError(f"tritonserver did not start: {log.read_text()[-2000:]}")


@pytest.mark.slow
def test_a_real_server_gives_the_verdicts_of_the_sdk(server, photos, monkeypatch):
    bundle, address = server
    monkeypatch.setenv("COVERLOCK_TRITON", address)
    marked = list(toy_lock().embed(photos, "alice"))
    with Verifier.open(bundle, "triton") as remote, Verifier.open(bundle, "cpu") as local:
        assert address in remote.runtime.providers[0]
        for pictures in (marked, list(photos)):
            got, expected = (v.verify(pictures, "alice") for v in (remote, local))
            assert [g.accepted for g in got] == [e.accepted for e in expected]
            np.testing.assert_allclose([g.p_value for g in got], [e.p_value for e in expected])
        with ThreadPoolExecutor(16) as threads:
            answers = list(threads.map(lambda p: remote.verify(p, "alice"), marked * 8))
    assert all(answers)
    with Verifier.open(
        bundle, "triton", settings=Settings(max_batch=64)
    ) as remote:  # the server takes 32
        assert all(remote.verify(marked * 4, "alice"))


@pytest.mark.slow
def test_another_bundle_is_not_mistaken_for_the_one_that_is_served(server, tmp_path, monkeypatch):
    bundle, address = server
    monkeypatch.setenv("COVERLOCK_TRITON", address)
    other = replace(bundle, manifest=replace(bundle.manifest, size=(64, 64)))
    with pytest.raises(RuntimeUnavailableError, match="is not that of"):
        Verifier.open(other, "triton")


@pytest.mark.slow
def test_requests_are_batched_by_the_server(server, photos):
    import tritonclient.grpc as grpc

    _, address = server
    client = grpc.InferenceServerClient(address)

    def ask(_):
        tensor = grpc.InferInput("images", [1, 128, 128, 3], "UINT8")
        tensor.set_data_from_numpy(np.zeros((1, 128, 128, 3), np.uint8))
        return client.infer(MODEL, [tensor]).as_numpy("descriptions")

    before = counts(client)
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(ask, range(128)))
    pictures, runs = (after - start for after, start in zip(counts(client), before, strict=True))
    assert pictures == 128
    assert runs < 128


def counts(client) -> tuple[int, int]:
    [stats] = client.get_inference_statistics(MODEL, as_json=True)["model_stats"]
    return int(stats["inference_count"]), int(stats["execution_count"])

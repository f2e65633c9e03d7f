# ruff: noqa: N802 (these are CUDA's names)
import json
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from coverlock_export.tensorrt import BuildSettings, compile_bundle
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.bundles.engines import PORTABLE, Engine, Gpu, NoGpuError, first_gpu
from coverlock_sdk.bundles.signing import SIGNATURE, generate_signing_key
from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import BundleError, EngineError
from tests.toy_bundle import write_toy_bundle

RTX = BuildSettings("tensorrt-rtx")


ADA = Gpu("an RTX 4090", (8, 9))


@pytest.fixture
def bundle(tmp_path):
    return write_toy_bundle(tmp_path / "bundle")


@pytest.fixture
def rtx():
    return pytest.importorskip("tensorrt_rtx", reason="pip install 'coverlock-sdk[rtx]'")


def engine(**changes) -> Engine:
    fields = {
        "graph": "verify",
        "precision": "fp16",
        "source": "0" * 64,
        "target": "tensorrt",
        "version": "11.4.0.106",
        "architecture": "sm89",
        "batches": (1, 8, 32),
        "version_compatible": False,
    }
    return Engine(**{**fields, **changes})


def test_a_real_engine_is_built_recorded_and_not_built_twice(rtx, bundle):
    cli = CliRunner()
    line = ["compile", str(bundle.path), "--target", "tensorrt-rtx", "--json"]
    first = cli.invoke(build_cli(), line)
    assert first.exit_code == 0, first.output
    [report] = json.loads(first.stdout)
    assert report["built"]
    assert report["architecture"] == PORTABLE

    opened = Bundle.open(bundle.path)
    [found] = opened.engines("verify", "fp32")
    assert len(opened.read(found.file)) > 1_000_000
    assert found.source == opened.manifest.files["verify.onnx"]

    [again] = json.loads(cli.invoke(build_cli(), line).stdout)
    assert not again["built"]
    assert again["file"] == report["file"]


def test_what_a_signed_bundle_holds_is_kept_only_if_its_signature_holds(
    bundle, tmp_path, monkeypatch
):
    pytest.importorskip("cryptography")
    monkeypatch.setattr("coverlock_export.tensorrt.load_library", lambda target: trt)
    trt = SimpleNamespace(__version__="1.7.1")
    there = engine(
        precision="fp32",
        source=bundle.manifest.files["verify.onnx"],
        target="tensorrt-rtx",
        version=trt.__version__,
        architecture=PORTABLE,
    )
    public = generate_signing_key(tmp_path / "release.pem")
    Bundle.open(bundle.path).sign(tmp_path / "release.pem")
    line = ["compile", str(bundle.path), "--target", "tensorrt-rtx"]
    signature = (bundle.path / SIGNATURE).read_bytes()
    bundle.with_engine(b"planted", there)
    (bundle.path / SIGNATURE).write_bytes(signature)
    for trust, complaint in (([], "name the public key"), (["--trust", str(public)], "altered")):
        refused = CliRunner().invoke(build_cli(), [*line, *trust])
        assert refused.exit_code == 2
        assert complaint in refused.stderr
        assert "sign it again" not in refused.stderr
    assert (bundle.path / SIGNATURE).read_bytes() == signature

    Bundle.open(bundle.path).sign(tmp_path / "release.pem")
    kept = CliRunner().invoke(build_cli(), [*line, "--trust", str(public)])
    assert kept.exit_code == 0, kept.output
    assert f"kept  {there.file}" in kept.stdout


def test_engines_belong_to_a_gpu_and_a_version():
    assert engine().misfit(ADA, "11.4.0.106") is None
    hopper = Gpu("an H100", (9, 0))
    assert "built for sm89, and an H100 is sm90" in engine().misfit(hopper, "11.4.0.106")
    assert "11.5.0.1 is installed" in engine().misfit(ADA, "11.5.0.1")

    portable = engine(architecture=PORTABLE)
    assert portable.misfit(hopper, "11.4.0.106") is None
    assert "older" in portable.misfit(Gpu("a T4", (7, 5)), "11.4.0.106")

    rtx = engine(architecture=PORTABLE, target="tensorrt-rtx", version="1.7.1")
    for capability in ((8, 6), (8, 9), (12, 0), (12, 1)):
        assert rtx.misfit(Gpu("an RTX", capability), "1.7.1") is None
    for capability in ((8, 0), (8, 7), (9, 0), (10, 0), (10, 3)):
        assert "serves RTX GPUs only" in rtx.misfit(Gpu("a B200", capability), "1.7.1")

    lasting = engine(version_compatible=True)
    assert lasting.misfit(ADA, "11.10.0.1") is None
    assert "11.3.0.1 is older" in lasting.misfit(ADA, "11.3.0.1")


def test_tensorrt_without_a_gpu_says_what_to_do(bundle, monkeypatch):
    monkeypatch.setattr("coverlock_export.tensorrt.first_gpu", _no_gpu)
    monkeypatch.setattr("coverlock_export.tensorrt.load_library", lambda target: np)
    with pytest.raises(EngineError, match="use '--target tensorrt-rtx', which needs no GPU"):
        list(compile_bundle(bundle, BuildSettings("tensorrt"), {"verify": ["fp32"]}))


def _no_gpu() -> Gpu:
    raise NoGpuError("there is no NVIDIA driver on this machine")


class OneGpu:
    """A driver with a single RTX 4090."""

    def __init__(self, library):
        pass

    def cuInit(self, flags):
        return 0

    def cuDeviceGetCount(self, count):
        count._obj.value = 1
        return 0

    def cuDeviceGet(self, device, index):
        return 0

    def cuDeviceGetName(self, name, length, device):
        name.value = b"NVIDIA GeForce RTX 4090"
        return 0

    def cuDeviceGetAttribute(self, value, attribute, device):
        value._obj.value = {75: 8, 76: 9}[attribute]
        return 0


def test_the_gpu_is_the_one_the_driver_names_and_its_absence_has_a_reason(monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", OneGpu)
    assert first_gpu() == Gpu("NVIDIA GeForce RTX 4090", (8, 9))
    assert first_gpu().architecture == "sm89"
    monkeypatch.setattr(OneGpu, "cuInit", lambda self, flags: 100)
    with pytest.raises(NoGpuError, match="error 100"):
        first_gpu()
    monkeypatch.setattr("ctypes.CDLL", _missing)
    with pytest.raises(NoGpuError, match="no NVIDIA driver"):
        first_gpu()


def _missing(library):
    raise OSError(library)


def test_a_damaged_engine_is_refused_with_its_bundle(rtx, bundle):
    [compiled] = compile_bundle(bundle, RTX, {"verify": ["fp32"]})
    path = bundle.path / compiled.engine.file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(BundleError, match="is not the one that was exported"):
        Bundle.open(bundle.path)

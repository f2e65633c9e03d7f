# ruff: noqa: N802 (these are CUDA's names)
import json
import sys
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from coverlock_export.tensorrt import BATCHES, compile_bundle
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.bundles.engines import Engine, Gpu, NoGpuError, first_gpu
from coverlock_sdk.bundles.signing import SIGNATURE, generate_signing_key
from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import BundleError, EngineError
from tests.toy_bundle import write_toy_bundle


@pytest.fixture
def bundle(tmp_path):
    return write_toy_bundle(tmp_path / "bundle")


@pytest.fixture
def rtx():
    return pytest.importorskip("tensorrt_rtx", reason="pip install 'coverlock-sdk[rtx]'")


def test_a_real_engine_is_built_recorded_and_not_built_twice(rtx, bundle, monkeypatch):
    configs = []

    class Builder(rtx.Builder):
        def create_builder_config(self):
            configs.append(super().create_builder_config())
            return configs[-1]

    monkeypatch.setattr(rtx, "Builder", Builder)
    cli = CliRunner()
    line = ["compile", str(bundle.path), "--json"]
    first = cli.invoke(build_cli(), line)
    assert first.exit_code == 0, first.output
    [report] = json.loads(first.stdout)
    assert report["built"]
    assert not configs[0].get_flag(rtx.BuilderFlag.TF32)  # fp32 means fp32

    opened = Bundle.open(bundle.path)
    [found] = opened.engines("verify", "fp32")
    assert len(opened.read(found.file)) > 1_000_000
    assert found.source == opened.manifest.files["verify.onnx"]

    [again] = json.loads(cli.invoke(build_cli(), line).stdout)
    assert not again["built"]
    assert again["file"] == report["file"]


@pytest.mark.parametrize(("target", "architecture"), [("tensorrt-rtx", None), ("tensorrt", "sm90")])
def test_what_a_signed_bundle_holds_is_kept_only_if_its_signature_holds(
    bundle, tmp_path, monkeypatch, target, architecture
):
    pytest.importorskip("cryptography")
    monkeypatch.setattr("coverlock_export.tensorrt.first_gpu", lambda: Gpu("an H100", (9, 0)))
    monkeypatch.setattr("coverlock_export.tensorrt.load_library", lambda target: trt)
    trt = SimpleNamespace(__version__="1.7.1")
    source = bundle.manifest.files["verify.onnx"]
    there = Engine("verify", "fp32", source, target, trt.__version__, BATCHES, architecture)
    public = generate_signing_key(tmp_path / "release.pem")
    Bundle.open(bundle.path).sign(tmp_path / "release.pem")
    line = ["compile", str(bundle.path), "--target", target]
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


def test_engines_belong_to_rtx_gpus_or_to_the_kind_they_were_built_on():
    engine = Engine("verify", "fp32", "0" * 64, "tensorrt-rtx", "1.7.1", BATCHES)
    for capability in ((8, 6), (8, 9), (12, 0), (12, 1)):
        assert engine.misfit(Gpu("an RTX", capability), "1.7.1") is None
    for capability in ((7, 5), (8, 0), (8, 7), (9, 0), (10, 0), (10, 3)):
        assert "serves RTX GPUs" in engine.misfit(Gpu("a B200", capability), "1.7.1")
    engine = Engine("verify", "fp32", "0" * 64, "tensorrt", "10.13", BATCHES, "sm90")
    assert engine.misfit(Gpu("an H100", (9, 0)), "10.13") is None
    assert "for sm90, and an A100 is sm80" in engine.misfit(Gpu("an A100", (8, 0)), "10.13")


def test_tensorrt_without_a_gpu_says_what_to_do(bundle, monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", _missing)
    monkeypatch.setitem(sys.modules, "tensorrt", SimpleNamespace(__version__="10.13"))
    with pytest.raises(EngineError, match="use '--target tensorrt-rtx', which needs no GPU"):
        list(compile_bundle(bundle, {"verify": ["fp32"]}, target="tensorrt"))


def test_batches_out_of_order_are_refused(bundle):
    with pytest.raises(EngineError, match="8, 1, 32 are not in order"):
        list(compile_bundle(bundle, {"verify": ["fp32"]}, (8, 1, 32)))


def test_the_gpu_is_the_one_the_driver_names_and_its_absence_has_a_reason(monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", OneGpu)
    assert first_gpu() == Gpu("NVIDIA GeForce RTX 4090", (8, 9))
    monkeypatch.setattr(OneGpu, "cuInit", lambda self, flags: 100)
    with pytest.raises(NoGpuError, match="error 100"):
        first_gpu()
    monkeypatch.setattr("ctypes.CDLL", _missing)
    with pytest.raises(NoGpuError, match="no NVIDIA driver"):
        first_gpu()


def _missing(library):
    raise OSError(library)


def test_a_damaged_engine_is_refused_with_its_bundle(rtx, bundle):
    [compiled] = compile_bundle(bundle, {"verify": ["fp32"]})
    path = bundle.path / compiled.engine.file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(BundleError, match="is not the one that was exported"):
        Bundle.open(bundle.path)

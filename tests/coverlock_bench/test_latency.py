import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxscript")
pytest.importorskip("pytest_benchmark")

from coverlock_bench.latency.command import LATENCY, run_suite
from coverlock_bench.latency.subjects import Subject
from coverlock_bench.photos import jpeg_files
from coverlock_export.exporting import ExportRequest, export_bundle
from coverlock_sdk import wrap
from tests.conftest import saved_pictures
from tests.coverlock_export.test_exporting import ExportableMark


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    folder = tmp_path_factory.mktemp("latency")
    photos = sorted(saved_pictures(folder / "photos", 32, (128, 128), seed=5).iterdir())
    lock = wrap(ExportableMark(), hash="octave")
    request = ExportRequest(lock, photos, precisions=["fp32"], count=4)
    bundle = export_bundle(request, folder / "bundle")
    return Subject(bundle, lock, jpeg_files(photos, 4, side=160))


@pytest.mark.slow
def test_every_stage_and_runtime_is_timed_against_torch(subject, capsys):
    figures = run_suite([subject], (1, 4), ("fp32",), 2, 1, clock="cpu")
    assert capsys.readouterr().out == ""  # it is for the result
    assert figures["machine"]["brand_raw"]
    assert figures["machine"]["count"] >= 1
    timed = figures["subjects"][subject.name]
    rows = {(r["stage"], r["runtime"], r["precision"], r["batch"]): r for r in timed["rows"]}
    for batch in (1, 4):
        for stage in ("decode", "resize", "statistics"):
            assert rows[stage, "host", "-", batch]["milliseconds"] > 0
        for stage in ("network", "end to end"):
            assert rows[stage, "torch", "fp32", batch]["ratio_to_torch"]["median"] == 1
            assert rows[stage, "cpu", "fp32", batch]["ratio_to_torch"]["median"] > 0
    assert timed["runtimes"]["cpu fp32"]["providers"] == ["CPUExecutionProvider"]
    pixels = 128 * 128  # a convolution of 3 x 3 products for each, then a product for each bit
    assert timed["gflop"] == {
        "decoder": pytest.approx(2 * pixels * (9 + subject.lock.bits) / 1e9),
        "hash": 0,
    }
    assert any("tensorrt" in name for name in figures["left_out"])
    assert "cpu fp32" in LATENCY.markdown(figures)

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

torch = pytest.importorskip("torch")

from coverlock_plugins.dinov2 import hash as dinov2  # noqa: E402
from coverlock_plugins.dinov2.sources import import_file  # noqa: E402
from coverlock_sdk.errors import CoverLockError  # noqa: E402
from coverlock_training.commands import train  # noqa: E402
from coverlock_training.hashes import heads  # noqa: E402
from tests.conftest import saved_pictures  # noqa: E402
from tests.coverlock_plugins.dinov2 import tiny_dinov2  # noqa: E402

MET = {
    "error": 0.05,
    "error_crop": 0.1,
    "pairs_mean": 0.5,
    "pairs_deviation": 0.04,
    "pairs_accepted": 0.0,
}


@pytest.fixture
def models(monkeypatch, tmp_path):
    """A models folder with a tiny DINOv2."""
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path / "models"))
    monkeypatch.setitem(dinov2.VARIANTS, "dinov2-s", tiny_dinov2.variant())
    torch.save(tiny_dinov2.original_weights(), tmp_path / "original.pth")
    (tmp_path / "models" / "dinov2-s").mkdir(parents=True)
    return import_file("dinov2-s", tmp_path / "original.pth")


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def photos(tmp_path):
    return saved_pictures(tmp_path / "photos", 40, (32, 32), 3)


def invoke(photos: Path, run: Path, *options: str) -> Result:
    return CliRunner().invoke(train, ["hash", str(photos), "--run", str(run), *options])


HEAD = ("--backbone", "dinov2-s", "--steps", "2", "--batch", "4", "--views", "1")


def test_a_head_that_meets_the_bar_is_installed_but_never_in_place_of_another_unasked(
    photos, run, models, monkeypatch
):
    train_head = heads.train_head
    monkeypatch.setattr(heads, "train_head", lambda *given: train_head(*given) and MET)
    beside_the_shipped = invoke(photos, run, *HEAD)
    assert beside_the_shipped.exit_code == 0, beside_the_shipped.output
    assert f"the head stays in {run}" in beside_the_shipped.output
    assert not (models / "head.safetensors").exists()
    monkeypatch.setattr(dinov2, "SHIPPED", run)  # none ships
    result = invoke(photos, run, *HEAD)
    assert f"installed {models / 'head.safetensors'}" in result.output
    assert dinov2.Dinov2Hash("dinov2-s").network.head.hidden.weight.shape == (512, 48)
    assert "the head stays in" in invoke(photos, run, *HEAD).output
    (models / "head.json").write_text("an older card")
    assert invoke(photos, run, *HEAD, "--replace").exit_code == 0
    assert (models / "head.json").read_bytes() == (run / "hash.json").read_bytes()


@pytest.mark.parametrize(
    "kind", [["hash", "--backbone", "dinov2-s"], ["watermark", "mbrs"]], ids=["hash", "watermark"]
)
@pytest.mark.parametrize("device", ["meta", "gpu", "cuda:77"])
def test_a_device_that_is_not_there_is_one_sentence(kind, device, tmp_path):
    run = ["--run", str(tmp_path / "run"), "--device", device]
    result = CliRunner().invoke(train, [*kind, str(tmp_path), *run])
    assert isinstance(result.exception, CoverLockError)
    assert f"nothing can be trained on '{device}' here" in str(result.exception)

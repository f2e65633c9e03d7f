from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from PIL import Image

torch = pytest.importorskip("torch")

from coverlock_sdk.errors import CoverLockError, MissingModelError, PictureError  # noqa: E402
from coverlock_sdk.hashing import dinov2  # noqa: E402
from coverlock_sdk.hashing.dinov2_weights import import_file  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402
from coverlock_training.commands import train  # noqa: E402
from coverlock_training.hashes import heads  # noqa: E402
from tests.coverlock_sdk.hashing import tiny_dinov2  # noqa: E402

MET = {
    "error": 0.05,
    "error_crop": 0.1,
    "pairs_mean": 0.5,
    "pairs_deviation": 0.04,
    "pairs_accepted": 0.0,
}


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A models folder with a tiny DINOv2."""
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path / "models"))
    monkeypatch.setitem(dinov2.VARIANTS, "dinov2-s", tiny_dinov2.variant())
    torch.save(tiny_dinov2.original_weights(), tmp_path / "original.pth")
    (tmp_path / "models" / "dinov2-s").mkdir(parents=True)
    return import_file("dinov2-s", tmp_path / "original.pth")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, picture in enumerate(natural_pictures(40, (32, 32), seed=3)):
        Image.fromarray(picture).save(folder / f"{number:03}.png")
    return folder


def invoke(photos: Path, run: Path, *options: str) -> Result:
    return CliRunner().invoke(train, ["hash", str(photos), "--run", str(run), *options])


HEAD = ("--backbone", "dinov2-s", "--steps", "2", "--batch", "4", "--views", "1")


@pytest.mark.slow
def test_a_head_that_misses_the_bar_stays_in_its_run(photos: Path, run: Path, models: Path) -> None:
    result = invoke(photos, run, *HEAD)
    assert isinstance(result.exception, CoverLockError)
    assert f"the head stays in {run} and is not installed" in str(result.exception)
    assert (run / "hash.safetensors").exists()
    assert not (models / "head.json").exists()


def test_a_head_that_meets_the_bar_is_installed_and_never_overwritten(
    photos: Path, run: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_head = heads.train_head
    monkeypatch.setattr(heads, "train_head", lambda *given: train_head(*given) and MET)
    result = invoke(photos, run, *HEAD)
    assert result.exit_code == 0, result.output
    assert f"installed {models / 'head.safetensors'}" in result.output
    assert dinov2.Dinov2Hash("dinov2-s").network.head.hidden.weight.shape == (512, 48)
    again = invoke(photos, run, *HEAD)
    assert "give --replace" in str(again.exception)
    (models / "head.json").write_text("an older card")
    assert invoke(photos, run, *HEAD, "--replace").exit_code == 0
    assert (models / "head.json").read_bytes() == (run / "hash.json").read_bytes()


def test_too_few_photos_to_measure_a_head_are_refused(
    photos: Path, run: Path, models: Path
) -> None:
    for photo in sorted(photos.iterdir())[12:]:
        photo.unlink()
    result = invoke(photos, run, *HEAD)
    assert isinstance(result.exception, PictureError)
    assert "too few photos to measure a head on" in str(result.exception)


def test_options_reach_the_recipe(
    photos: Path, run: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(heads, "head_data", lambda backbone, photos, cache, recipe: None)
    monkeypatch.setattr(
        heads, "train_head", lambda data, run, recipe, *how: seen.append((recipe, how[1:])) or MET
    )
    monkeypatch.setattr("coverlock_training.hash_command.install_head", lambda *given: "nowhere")
    for options in ([], ["--seed", "3", "--steps", "7", "--views", "2", "--bf16"]):
        assert invoke(photos, run, "--backbone", "dinov2-s", *options).exit_code == 0
    usual, changed = seen
    assert usual == (heads.HeadRecipe(), (False, "cpu"))
    recipe, how = changed
    assert (recipe.schedule.seed, recipe.schedule.steps, recipe.views) == (3, 7, 2)
    assert how == (True, "cpu")


def test_a_folder_without_pictures_is_one_sentence(tmp_path: Path, run: Path, models: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert isinstance(invoke(tmp_path / "empty", run).exception, PictureError)


def test_a_backbone_that_is_not_there_names_the_command(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    result = invoke(tmp_path, run, "--backbone", "dinov2-s")
    assert isinstance(result.exception, MissingModelError)
    assert "coverlock fetch dinov2-s" in str(result.exception)


def test_an_unknown_backbone_is_refused(tmp_path: Path, run: Path) -> None:
    result = invoke(tmp_path, run, "--backbone", "dinov3")
    assert result.exit_code == 2
    assert "dinov2-s" in result.output


def test_no_views_at_all_are_refused(tmp_path: Path, run: Path) -> None:
    result = invoke(tmp_path, run, "--views", "0")
    assert result.exit_code == 2
    assert "0 is not in the range x>=1" in result.output


@pytest.mark.parametrize(
    "kind", [["hash", "--backbone", "dinov2-s"], ["watermark", "mbrs"]], ids=["hash", "watermark"]
)
@pytest.mark.parametrize("device", ["meta", "gpu", "cuda:77"])
def test_a_device_that_is_not_there_is_one_sentence(
    kind: list[str], device: str, tmp_path: Path
) -> None:
    run = ["--run", str(tmp_path / "run"), "--device", device]
    result = CliRunner().invoke(train, [*kind, str(tmp_path), *run])
    assert isinstance(result.exception, CoverLockError)
    assert f"nothing can be trained on '{device}' here" in str(result.exception)

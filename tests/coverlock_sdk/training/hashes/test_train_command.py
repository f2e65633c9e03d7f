from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("torch")

from coverlock_sdk.cli.train import train
from coverlock_sdk.errors import CoverLockError, MissingModelError, PictureError
from coverlock_sdk.training.hashes import duo_recipe, keen_recipe, recipes


def test_a_folder_without_pictures_is_one_sentence(tmp_path: Path) -> None:
    result = CliRunner().invoke(train, ["hash", str(tmp_path), "--run", str(tmp_path / "run")])
    assert isinstance(result.exception, PictureError)


def test_a_backbone_that_is_not_there_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    arguments = ["hash", str(tmp_path), "--run", str(tmp_path / "run"), "--backbone", "dinov2-s"]
    result = CliRunner().invoke(train, arguments)
    assert isinstance(result.exception, MissingModelError)
    assert "coverlock fetch dinov2-s" in str(result.exception)


def test_an_unknown_backbone_is_refused(tmp_path: Path) -> None:
    arguments = ["hash", str(tmp_path), "--run", str(tmp_path / "run"), "--backbone", "dinov3"]
    result = CliRunner().invoke(train, arguments)
    assert result.exit_code == 2
    assert "dinov2-s" in result.output


def test_options_of_nano_reach_its_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(
        recipes, "train_nano", lambda photos, run, recipe, report, **how: seen.append((recipe, how))
    )
    for options in ([], ["--seed", "3", "--batch", "8", "--bf16"]):
        arguments = ["hash", str(tmp_path), "--run", str(tmp_path / "run"), "--backbone", "nano"]
        assert CliRunner().invoke(train, [*arguments, *options]).exit_code == 0
    assert seen[0] == (recipes.NanoRecipe(), {"bfloat16": False, "device": "cpu"})
    recipe, how = seen[1]
    assert how["bfloat16"]
    assert (recipe.body.seed, recipe.head.seed) == (3, 3)
    assert (recipe.body.batch, recipe.head.batch) == (8, recipes.NANO_HEAD.batch)


def test_options_of_keen_reach_its_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(
        keen_recipe, "train_keen", lambda photos, run, recipe, report, **how: seen.append(recipe)
    )
    for options in ([], ["--seed", "3", "--steps", "8", "--views", "0"]):
        arguments = ["hash", str(tmp_path), "--run", str(tmp_path / "run"), "--backbone", "keen"]
        assert CliRunner().invoke(train, [*arguments, *options]).exit_code == 0
    usual, changed = seen
    assert usual == keen_recipe.KeenRecipe()
    seeds = (changed.body.seed, changed.whole.seed, changed.head.schedule.seed)
    assert seeds == (3, 3, 3)
    assert (changed.body.steps, changed.head.schedule.steps) == (8, usual.head.schedule.steps)
    assert changed.head.views == 0


def test_options_of_duo_reach_its_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(
        duo_recipe, "fit_duo", lambda photos, run, recipe, device: seen.append(recipe)
    )
    arguments = ["hash", str(tmp_path), "--run", str(tmp_path / "run"), "--backbone", "duo"]
    for options in ([], ["--seed", "3", "--views", "1"]):
        assert CliRunner().invoke(train, [*arguments, *options]).exit_code == 0
    assert seen == [duo_recipe.DuoRecipe(), duo_recipe.DuoRecipe(seed=3, views=1)]
    for options, reason in (
        (["--steps", "5"], "the head of 'duo' is computed: leave out --steps, --batch and --bf16"),
        (["--views", "0"], "'duo' is computed from kept features: --views must be above 0"),
    ):
        refused = CliRunner().invoke(train, [*arguments, *options])
        assert refused.exit_code == 2
        assert reason in refused.output


def test_a_negative_number_of_views_is_refused(tmp_path: Path) -> None:
    arguments = ["hash", str(tmp_path), "--run", str(tmp_path / "run"), "--views", "-1"]
    result = CliRunner().invoke(train, arguments)
    assert result.exit_code == 2
    assert "-1 is not in the range x>=0" in result.output


@pytest.mark.parametrize("kind", [["hash"], ["watermark", "mbrs"]], ids=["hash", "watermark"])
@pytest.mark.parametrize("device", ["meta", "gpu", "cuda:77"])
def test_a_device_that_is_not_there_is_one_sentence(
    kind: list[str], device: str, tmp_path: Path
) -> None:
    run = ["--run", str(tmp_path / "run"), "--device", device]
    result = CliRunner().invoke(train, [*kind, str(tmp_path), *run])
    assert isinstance(result.exception, CoverLockError)
    assert f"nothing can be trained on '{device}' here" in str(result.exception)

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("torch")

from coverlock_sdk.cli.train import train
from coverlock_sdk.errors import MissingModelError, PictureError
from coverlock_sdk.hashing import recipes


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


def test_the_seed_is_that_of_every_stage_of_nano(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[recipes.NanoRecipe] = []
    monkeypatch.setattr(
        recipes, "train_nano", lambda photos, run, recipe, report: seen.append(recipe)
    )
    for options in ([], ["--seed", "3", "--batch", "8"]):
        arguments = ["hash", str(tmp_path), "--run", str(tmp_path / "run"), *options]
        assert CliRunner().invoke(train, arguments).exit_code == 0
    assert seen[0] == recipes.NanoRecipe()
    assert (seen[1].body.seed, seen[1].head.seed) == (3, 3)
    assert (seen[1].body.batch, seen[1].head.batch) == (8, recipes.NANO_HEAD.batch)


def test_a_negative_number_of_views_is_refused(tmp_path: Path) -> None:
    arguments = ["hash", str(tmp_path), "--run", str(tmp_path / "run"), "--views", "-1"]
    result = CliRunner().invoke(train, arguments)
    assert result.exit_code == 2
    assert "-1 is not in the range x>=0" in result.output

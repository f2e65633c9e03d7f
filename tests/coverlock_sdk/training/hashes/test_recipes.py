"""Whole training runs, as small as they can be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from safetensors.numpy import load_file  # noqa: E402

from coverlock_sdk.hashing.network import Backbone  # noqa: E402
from coverlock_sdk.hashing.windowed import Model  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402
from coverlock_sdk.training import results  # noqa: E402
from coverlock_sdk.training.hashes import recipes  # noqa: E402
from coverlock_sdk.training.loop import Schedule  # noqa: E402
from coverlock_sdk.training.photos import split  # noqa: E402

SHORT = Schedule(steps=3, batch=4, rate=1e-3, record_every=3)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for number, picture in enumerate(natural_pictures(12, (128, 128), seed=3)):
        Image.fromarray(picture).save(folder / f"{number:03}.png")
    return folder


@pytest.fixture
def no_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """To draw them takes longer than everything else in so short a run."""
    monkeypatch.setattr(results, "draw_curves", lambda history, file: None)


class Averages(Backbone):
    """A frozen backbone in a line: the mean colour of each of 4 x 4 cells."""

    size, features = 32, 48
    settings = {"cells": 4}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.pool = torch.nn.Conv2d(3, 3, 8, stride=8, groups=3, bias=False)
        torch.nn.init.constant_(self.pool.weight, 1 / 64)

    def forward(self, images):
        return self.pool(images).flatten(1)


def test_nano_is_trained_rounded_and_written(photos: Path, tmp_path: Path) -> None:
    head = replace(SHORT, seed=1)
    body = replace(SHORT, averaging=0.5)
    recipe = recipes.NanoRecipe(held_out=0.3, body=body, head=head, views=1)
    seen = []
    network = recipes.train_nano(photos, tmp_path, recipe, lambda *news: seen.append(news[:2]))
    assert seen[0] == ("body", 1)
    assert seen[-1] == ("head", 3)
    assert (tmp_path / "body" / "curves.png").exists()
    kept = torch.load(tmp_path / "body" / "checkpoint.pt", weights_only=True)
    assert set(kept["averaged"]) == set(network.state_dict())
    assert len(list((tmp_path / "cache").glob("training-*.npy"))) == 2  # one for each stage's seed
    card = json.loads((tmp_path / "hash.json").read_text())
    assert card["recipe"]["body"]["steps"] == 3
    assert 0 <= card["held_out"]["error"] <= 0.6
    weights = {k: v.astype(np.float32) for k, v in load_file(tmp_path / "hash.safetensors").items()}
    images = np.random.default_rng(0).random((2, 3, 96, 96), dtype=np.float32)
    with torch.inference_mode():
        expected = network(torch.from_numpy(images)).numpy()
    logits = Model.build(card["network"], weights)(images)
    np.testing.assert_allclose(logits, expected, atol=2e-3)


@pytest.mark.usefixtures("no_curves")
def test_the_head_of_nano_learns_from_fresh_views_too_and_in_bfloat16(
    photos: Path, tmp_path: Path
) -> None:
    once = replace(SHORT, steps=1)
    recipe = recipes.NanoRecipe(held_out=0.3, body=once, head=once, views=0)
    recipes.train_nano(photos, tmp_path, recipe, bfloat16=True)
    card = json.loads((tmp_path / "hash.json").read_text())
    assert (card["recipe"]["views"], card["bfloat16"]) == (0, True)
    assert not list((tmp_path / "cache").glob("features-*"))


@pytest.mark.parametrize("views", [0, 2], ids=["fresh", "cached"])
def test_a_head_is_trained_on_a_frozen_backbone(photos: Path, tmp_path: Path, views: int) -> None:
    backbone = Averages()
    before = backbone.pool.weight.clone()
    schedule = replace(SHORT, averaging=0.5)
    recipe = recipes.HeadRecipe(held_out=0.3, schedule=schedule, views=views)
    recipes.train_head(backbone, photos, tmp_path, recipe)
    assert torch.equal(backbone.pool.weight, before)
    weights = load_file(tmp_path / "hash.safetensors")
    assert weights["hidden.weight"].shape == (512, 48)
    assert json.loads((tmp_path / "hash.json").read_text())["network"] == {"cells": 4}
    checkpoint = torch.load(tmp_path / "head" / "checkpoint.pt", weights_only=True)
    assert set(checkpoint["model"]) == set(checkpoint["averaged"]) == set(weights)


@pytest.mark.usefixtures("no_curves")
def test_fresh_views_of_a_frozen_backbone_teach_what_cached_ones_do(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "coverlock_sdk.training.hashes.views.draw_training_distortion",
        lambda rng: lambda picture, rng: picture,  # so that all views are alike
    )
    heads = []
    for views in (0, 1):
        recipe = recipes.HeadRecipe(held_out=0.3, schedule=SHORT, views=views)
        recipes.train_head(Averages(), photos, tmp_path / str(views), recipe)
        heads.append(load_file(tmp_path / str(views) / "hash.safetensors"))
    for name, value in heads[0].items():
        np.testing.assert_allclose(value, heads[1][name], atol=2e-3)


@pytest.mark.usefixtures("no_curves")
def test_features_are_kept_by_pictures_backbone_and_seed(photos: Path, tmp_path: Path) -> None:
    """One cache for runs that differ in one thing each, in folders of the same name and size."""
    others = tmp_path / photos.name
    others.mkdir()
    training = split(photos, 0.3)[0]
    for photo in photos.iterdir():
        renamed = "another.png" if photo == training[0] else photo.name  # still one to train on
        (others / renamed).symlink_to(photo)
    wider = Averages()
    wider.settings = {"cells": 5}
    recipe = recipes.HeadRecipe(
        held_out=0.3, composition=recipes.NANO_HEAD_COMPOSITION, schedule=SHORT, views=1
    )
    seeded = replace(recipe, schedule=replace(SHORT, seed=1))
    runs = [
        (Averages(), photos, recipe),
        (wider, photos, recipe),
        (Averages(), others, recipe),
        (Averages(), photos, seeded),
    ]
    kept = []
    for number, (backbone, folder, changed) in enumerate(runs):
        run, cache = tmp_path / str(number), tmp_path / "cache"
        recipes.train_head(backbone, folder, run, changed, cache=cache)
        kept.append(len(list(cache.glob("features-*.npy"))))
    assert kept == [1, 2, 3, 4]


@pytest.mark.usefixtures("no_curves")
def test_caching_tells_how_far_it_has_come(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr("coverlock_sdk.progress.SECONDS_BETWEEN_LINES", -1.0)
    recipe = recipes.HeadRecipe(held_out=0.3, schedule=SHORT, views=1)
    recipes.train_head(Averages(), photos, tmp_path, recipe)
    lines = capsys.readouterr().err.splitlines()
    assert "features of training pictures, 64 at a time: 0 of 1" in lines
    assert "features of held-out pictures, 64 at a time: 0 of 1" in lines


@pytest.mark.gpu
@pytest.mark.parametrize("views", [0, 1])
def test_hashes_are_trained_on_a_gpu(photos: Path, tmp_path: Path, views: int) -> None:
    head = recipes.HeadRecipe(held_out=0.3, schedule=SHORT, views=views)
    recipes.train_head(Averages(), photos, tmp_path / "head", head, device="cuda")
    nano = recipes.NanoRecipe(held_out=0.3, body=SHORT, head=SHORT, views=views)
    network = recipes.train_nano(photos, tmp_path / "nano", nano, bfloat16=True, device="cuda")
    assert all(parameter.is_cuda for parameter in network.parameters())
    for run in ("head", "nano"):
        card = json.loads((tmp_path / run / "hash.json").read_text())
        assert 0 <= card["held_out"]["error"] <= 0.6


def test_the_paper_recipe_is_the_default() -> None:
    recipe = recipes.HeadRecipe()
    assert (recipe.held_out, recipe.views) == (0.2, 0)
    assert recipe.schedule == Schedule()
    assert replace(recipe).objective.sign == 0

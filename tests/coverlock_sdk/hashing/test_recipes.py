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

from coverlock_sdk.hashing import recipes  # noqa: E402
from coverlock_sdk.hashing.nano import Model  # noqa: E402
from coverlock_sdk.hashing.network import Backbone  # noqa: E402
from coverlock_sdk.hashing.trainer import Schedule  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402

SHORT = Schedule(steps=3, batch=4, rate=1e-3, record_every=3)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for number, picture in enumerate(natural_pictures(12, (128, 128), seed=3)):
        Image.fromarray(picture).save(folder / f"{number:03}.png")
    return folder


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
    recipe = recipes.NanoRecipe(held_out=0.3, body=SHORT, head=SHORT, views=1)
    seen = []
    network = recipes.train_nano(photos, tmp_path, recipe, lambda *news: seen.append(news[:2]))
    assert seen[0] == ("body", 1)
    assert seen[-1] == ("head", 3)
    assert (tmp_path / "body" / "curves.png").exists()
    body = torch.load(tmp_path / "body" / "checkpoint.pt", weights_only=True)
    assert set(body["averaged"]) == set(network.state_dict())
    card = json.loads((tmp_path / "hash.json").read_text())
    assert card["recipe"]["body"]["steps"] == 3
    assert 0 <= card["held_out"]["error"] <= 0.6
    weights = {k: v.astype(np.float32) for k, v in load_file(tmp_path / "hash.safetensors").items()}
    images = np.random.default_rng(0).random((2, 3, 96, 96), dtype=np.float32)
    with torch.inference_mode():
        expected = network(torch.from_numpy(images)).numpy()
    logits = Model.build(card["network"], weights)(images)
    np.testing.assert_allclose(logits, expected, atol=2e-3)


@pytest.mark.parametrize("views", [0, 2], ids=["fresh", "cached"])
def test_a_head_is_trained_on_a_frozen_backbone(photos: Path, tmp_path: Path, views: int) -> None:
    backbone = Averages()
    before = backbone.pool.weight.clone()
    recipe = recipes.HeadRecipe(held_out=0.3, schedule=SHORT, views=views)
    recipes.train_head(backbone, photos, tmp_path, recipe)
    assert torch.equal(backbone.pool.weight, before)
    weights = load_file(tmp_path / "hash.safetensors")
    assert weights["hidden.weight"].shape == (512, 48)
    assert json.loads((tmp_path / "hash.json").read_text())["network"] == {"cells": 4}
    checkpoint = torch.load(tmp_path / "head" / "checkpoint.pt", weights_only=True)
    assert set(checkpoint["model"]) == set(checkpoint["averaged"]) == set(weights)


def test_fresh_views_of_a_frozen_backbone_teach_what_cached_ones_do(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "coverlock_sdk.hashing.views.draw_training_distortion",
        lambda rng: lambda picture, rng: picture,  # so that all views are alike
    )
    heads = []
    for views in (0, 1):
        recipe = recipes.HeadRecipe(held_out=0.3, schedule=SHORT, views=views)
        recipes.train_head(Averages(), photos, tmp_path / str(views), recipe)
        heads.append(load_file(tmp_path / str(views) / "hash.safetensors"))
    for name, value in heads[0].items():
        np.testing.assert_allclose(value, heads[1][name], atol=2e-3)


def test_the_paper_recipe_is_the_default() -> None:
    recipe = recipes.HeadRecipe()
    assert (recipe.held_out, recipe.views) == (0.2, 0)
    assert recipe.schedule == Schedule()
    assert replace(recipe).objective.sign == 0

from __future__ import annotations

import json
from dataclasses import asdict, replace
from importlib import resources

import pytest
from click.testing import CliRunner
from PIL import Image

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from safetensors.torch import load_file  # noqa: E402

from coverlock_sdk.cli import build_cli  # noqa: E402
from coverlock_sdk.hashing.network import Backbone  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402
from coverlock_sdk.training.hashes.losses import Objective  # noqa: E402
from coverlock_sdk.training.hashes.recipes import HeadRecipe  # noqa: E402
from coverlock_sdk.training.hashes.views import Composition  # noqa: E402
from coverlock_sdk.training.loop import Schedule  # noqa: E402
from experiments import backbones, hash_variants  # noqa: E402
from experiments.backbone_assets import AUGNET, EFFICIENTNET, WEIGHTS  # noqa: E402


class Averages(Backbone):
    """A frozen backbone in a line: the mean colour of each of 4 x 4 cells."""

    size, features = 32, 48
    settings = {"cells": 4}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.pool = torch.nn.Conv2d(3, 3, 8, stride=8, groups=3, bias=False)

    def forward(self, images):
        return self.pool(images).flatten(1)


class Blind(Averages):
    """A frozen backbone to which all pictures are the same."""

    def forward(self, images):
        return torch.ones_like(self.pool(images).flatten(1))


def test_every_way_to_a_hash_is_trained_and_compared(tmp_path, monkeypatch):
    for number, picture in enumerate(natural_pictures(14, (96, 96), seed=3)):
        Image.fromarray(picture).save(tmp_path / f"{number:03}.png")
    schedule = replace(hash_variants.HEAD.schedule, steps=2, batch=4)
    head = replace(hash_variants.HEAD, held_out=0.3, schedule=schedule)
    monkeypatch.setattr(hash_variants, "HEAD", head)
    monkeypatch.setattr(hash_variants, "BACKBONES", {"averages": Averages, "blind": Blind})
    monkeypatch.setattr(hash_variants, "STUDENT_STEPS", 3)
    monkeypatch.setattr(hash_variants, "TIMINGS", 2)
    out = tmp_path / "variants.json"
    folders = ["--images", str(tmp_path), "--run", str(tmp_path / "run")]
    result = CliRunner().invoke(build_cli(), ["bench", "hash-variants", *folders, "-o", str(out)])
    assert result.exit_code == 0, result.output
    document = json.loads(out.read_text())
    figures = document["figures"]
    assert len(figures) == 4
    assert document["config"]["photos"] + document["config"]["held_out_photos"] == 14
    scratch, frozen, blind, distilled = figures.values()
    assert scratch["error"] < 0.1
    assert scratch["times_nano"] == 1
    assert 0 <= frozen["error"] <= 0.6
    assert distilled["parameters"] < 0.6 * scratch["parameters"]
    assert "head on frozen averages" in result.output
    assert blind["error"] == 0  # no distortion changes what it sees, so it is the best teacher
    assert "distilled from head on frozen blind" in figures


def test_heads_on_frozen_backbones_learn_as_that_of_nano_did():
    card = resources.files("coverlock_sdk.hashing") / "weights" / "nano.json"
    shipped = json.loads(card.read_text())["recipe"]
    learned = HeadRecipe(  # what the card does not name did not exist yet, and is off by default
        shipped["held_out"],
        Composition(**shipped["head_composition"]),
        Objective(**shipped["head_objective"]),
        Schedule(**shipped["head"]),
        shipped["views"],
    )
    assert json.dumps(asdict(hash_variants.HEAD)) == json.dumps(asdict(learned))


@pytest.mark.parametrize(
    ("network", "parameters", "channels"),
    [
        (backbones.ResNet50Features, 23_508_032, 2048),
        (backbones.EfficientNetLite0, 3_371_008, 1280),
    ],
)
def test_networks_have_the_published_shape(network, parameters, channels):
    module = network().eval()
    assert sum(parameter.numel() for parameter in module.parameters()) == parameters
    with torch.inference_mode():
        assert module(torch.zeros(1, 3, 64, 64)).shape == (1, channels, 2, 2)


@pytest.mark.parametrize(
    ("asset", "build"),
    [(AUGNET, backbones.augnet), (EFFICIENTNET, backbones.efficientnet_lite0)],
)
def test_published_weights_fill_the_networks(asset, build):
    if not asset.is_present:
        pytest.skip(f"coverlock fetch {asset.name}")
    backbone = build()
    stored = {tuple(v.shape) for v in load_file(backbones.locate(asset) / WEIGHTS).values()}
    assert {tuple(p.shape) for p in backbone.model.parameters()} <= stored
    with torch.inference_mode():
        first, second = backbone(torch.rand(2, 3, 128, 128))
    assert torch.isfinite(first).all()
    assert not torch.equal(first, second)

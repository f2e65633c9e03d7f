"""Variants trained for a comparison: trained once, loaded afterwards, measured alike."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("kornia")

from coverlock_bench import rt
from coverlock_sdk.errors import CoverLockError
from coverlock_training.watermarks.trainer import WatermarkRecipe
from experiments import interventions, trained
from experiments.tables import INTERVENTIONS
from experiments.trained import Variant
from tests.conftest import saved_pictures

TINY = Variant(
    "mbrs",
    "mbrs",
    {"bits": 64, "size": 64, "channels": 8},
    WatermarkRecipe(steps=2, batch=2, record_every=2),
    {"rt": {"100": 0.5}},
)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return saved_pictures(tmp_path_factory.mktemp("photos"), 30, (72, 72), 5)


@pytest.fixture(scope="module", autouse=True)
def _few_messages():
    with pytest.MonkeyPatch.context() as patch:
        few = partial(trained.transferability_curve, messages=2)
        patch.setattr(trained, "transferability_curve", few)
        yield


@pytest.fixture
def tiny(monkeypatch):
    low = replace(TINY, label="mbrs-with-broadcast-gap")
    monkeypatch.setattr(interventions, "VARIANTS", (TINY, low))


def intervened(photos: Path, runs: Path) -> Any:
    """What is found of the first variant, with one seed."""
    images = sorted(photos.iterdir())
    return interventions.interventions(["mbrs"], photos, images, runs, [0], bfloat16=False)


@pytest.fixture
def runs(photos, tiny, tmp_path):
    """A folder with a run that was trained to its end."""
    intervened(photos, tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_variants_are_trained_and_measured_once(photos, tmp_path, monkeypatch):
    images = sorted(photos.iterdir())
    figures = interventions.interventions([], photos, images, tmp_path, [0, 1], bfloat16=False)
    run = figures["trained"]["mbrs"]["seeds"]["0"]
    assert set(run["rt"]) == {"1", "10"}  # thirty pictures do not reach a hundred sources
    assert run["images_seen"] == 4
    weights = tmp_path / "mbrs-0" / "watermark.safetensors"
    first = weights.stat().st_mtime_ns
    monkeypatch.setattr(rt, "decode", None)  # nothing is measured twice either
    again = intervened(photos, tmp_path)
    assert weights.stat().st_mtime_ns == first
    assert again["trained"]["mbrs"]["seeds"]["0"] == run
    assert "vine with broadcast gap | - | 0" in INTERVENTIONS.markdown(figures)
    json.dumps(figures)


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize(
    "changed",
    [
        replace(TINY, recipe=replace(TINY.recipe, rate=0.5)),
        replace(TINY, settings={**TINY.settings, "bits": 256, "size": 128}),  # of the same shapes
    ],
)
def test_a_run_is_neither_shown_nor_gone_on_with_under_other_settings(
    changed, finished, photos, runs, monkeypatch
):
    if not finished:
        (runs / "mbrs-0" / "watermark.safetensors").unlink()
    monkeypatch.setattr(interventions, "VARIANTS", (changed,))
    with pytest.raises(CoverLockError, match="trained with other settings"):
        intervened(photos, runs)

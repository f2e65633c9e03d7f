"""Variants trained for a comparison: trained once, loaded afterwards, measured alike."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

pytest.importorskip("torch")
pytest.importorskip("kornia")

from coverlock_bench import rt
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.testing import natural_pictures
from coverlock_training.watermarks.trainer import WatermarkRecipe
from experiments import interventions, trained, training_factors
from experiments.tables import INTERVENTIONS, TRAINING_FACTORS
from experiments.trained import Variant

TINY = Variant(
    "mbrs",
    "mbrs",
    {"bits": 64, "size": 64, "channels": 8},
    WatermarkRecipe(steps=2, batch=2, record_every=2),
    {"rt": {"100": 0.5}},
)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for index, picture in enumerate(natural_pictures(30, (72, 72), seed=5)):
        Image.fromarray(picture).save(folder / f"{index}.png")
    return folder


@pytest.fixture(autouse=True)
def few_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    few = partial(trained.transferability_curve, messages=2)
    monkeypatch.setattr(trained, "transferability_curve", few)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    low = replace(TINY, label="mbrs-with-broadcast-gap")
    monkeypatch.setattr(interventions, "VARIANTS", (TINY, low))
    monkeypatch.setattr(training_factors, "VARIANTS", (TINY,))
    monkeypatch.setattr(training_factors, "SHORTER", {"mbrs": {"steps": 2}})


def intervened(photos: Path, runs: Path) -> Any:
    """What is found of the first variant, with one seed."""
    images = sorted(photos.iterdir())
    return interventions.interventions(["mbrs"], photos, images, runs, [0], bfloat16=False)


@pytest.fixture(scope="module")
def trained_once(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        few = partial(trained.transferability_curve, messages=2)
        patch.setattr(trained, "transferability_curve", few)
        patch.setattr(interventions, "VARIANTS", (TINY,))
        intervened(photos, runs)
    return runs


@pytest.fixture
def runs(trained_once: Path, tiny: None, tmp_path: Path) -> Path:
    """A folder with a run that was trained to its end, for a test to change."""
    return shutil.copytree(trained_once, tmp_path / "runs")


def card_of(runs: Path) -> tuple[Path, dict[str, Any]]:
    """The card of the run, and its file."""
    file = runs / "mbrs-0" / "watermark.json"
    return file, json.loads(file.read_text())


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_variants_are_trained_and_measured_once(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def measured(rts: list[float], twins: bool, paper: dict[str, object]) -> dict[str, object]:
    """A variant of a result file, with one run for each of ``rts``."""
    run = {
        "bit_accuracy": 0.9,
        "psnr": 30.04,
        "images_seen": 4000,
        "covers_seen": 4000 // (1 + twins),
        "curve": [(2000, 0.7), (4000, 0.9)],
    }
    seeds = {
        str(seed): {**run, "rt": {"100": {"rt": rt, "messages": 20}}} for seed, rt in enumerate(rts)
    }
    recipe, settings = {"inverted_twins": twins}, {"bits": 8}
    return {"settings": settings, "recipe": recipe, "paper": paper, "seeds": seeds}


FIGURES = {
    "trained": {
        "one": measured([0.2], False, {"accuracy": 0.998, "psnr": 28.23, "rt": {"100": 0.214}}),
        "twins": measured([0.2, 0.4], True, {"rt": {"100": 0.5}}),
    },
    "untrained": interventions.UNTRAINED,
}


def test_the_paper_stands_beside_what_was_measured() -> None:
    _, _, one, twins, vine, failed = INTERVENTIONS.markdown(FIGURES).splitlines()
    read = "0.900 (0.998) | 30.0 dB (28.23 dB)"
    assert one == f"| one | 8 | 1 | 4,000 | {read} | - | - | 0.20 (0.214) | 20 |"
    assert twins == "| twins | 8 | 2 | 2,000 | 0.900 | 30.0 dB | - | - | 0.30 ± 0.14 (0.500) | 20 |"
    assert "| - (1.000) | - (35.47 dB) | - (0.964) | - (0.981) | - (0.986) |" in vine
    assert "| - (0.600) | - (6.97 dB) | - (training failure) |" in failed


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_training_choices_are_varied_one_at_a_time(photos: Path, tmp_path: Path) -> None:
    runs = training_factors.factors("mbrs")
    assert list(runs) == [
        "base", "dataset", "16 bits", "256 bits", "fidelity x 0.5", "fidelity x 2", "noise"
    ]  # fmt: skip
    assert runs["noise"].recipe.noise
    assert runs["fidelity x 2"].recipe.image_weight == 2 * TINY.recipe.image_weight
    images = sorted(photos.iterdir())
    arguments = (photos, photos, images, tmp_path, [0], False)
    figures = training_factors.training_factors(["mbrs"], ["noise"], *arguments)
    assert list(figures["mbrs"]) == ["noise"]
    assert "| mbrs | noise | 1 | 4 |" in TRAINING_FACTORS.markdown(figures)
    with pytest.raises(CoverLockError, match="no change 'weather'"):
        training_factors.training_factors(["mbrs"], ["weather"], *arguments)


def test_an_unknown_variant_is_refused(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(CoverLockError, match="no variant 'hiden': use hidden"):
        interventions.interventions(["hiden"], photos, [], tmp_path, [0], bfloat16=False)


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize(
    "changed",
    [
        replace(TINY, recipe=replace(TINY.recipe, rate=0.5)),
        replace(TINY, settings={**TINY.settings, "bits": 256, "size": 128}),  # of the same shapes
    ],
)
def test_a_run_is_neither_shown_nor_gone_on_with_under_other_settings(
    changed: Variant, finished: bool, photos: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not finished:
        (runs / "mbrs-0" / "watermark.safetensors").unlink()
    monkeypatch.setattr(interventions, "VARIANTS", (changed,))
    with pytest.raises(CoverLockError, match="trained with other settings"):
        intervened(photos, runs)


def test_a_run_that_changed_on_the_way_is_not_shown(photos: Path, runs: Path) -> None:
    file, card = card_of(runs)
    made_with = {"recipe": card["recipe"], "settings": card["settings"]}
    other = {**made_with, "recipe": {**card["recipe"], "rate": 0.5}}
    file.write_text(json.dumps({**card, "sittings": [other, made_with]}))
    with pytest.raises(CoverLockError, match="trained with other settings"):
        intervened(photos, runs)

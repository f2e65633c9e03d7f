from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")

from coverlock_bench.attacks.wmforger import PreferenceResidual  # noqa: E402
from coverlock_bench.preference import training  # noqa: E402
from coverlock_bench.preference.augmentations import AUGMENTATIONS, augment  # noqa: E402
from coverlock_bench.preference.marks import FAMILIES, add_mark  # noqa: E402
from coverlock_bench.preference.network import (  # noqa: E402
    PREFIXES,
    PUBLISHED,
    PreferenceNetwork,
    lift,
)
from coverlock_bench.preference.visibility import visibility_threshold  # noqa: E402
from coverlock_bench.preference.weights import (  # noqa: E402
    import_official,
    load_preference,
    shape_of,
)
from coverlock_plugins.convnext.network import Shape  # noqa: E402
from coverlock_sdk.errors import CorruptModelError, CoverLockError, MissingModelError  # noqa: E402
from coverlock_sdk.models.checkpoints import write_weights  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402
from coverlock_sdk.training.loop import Schedule  # noqa: E402

SHORT = Schedule(steps=4, batch=3, rate=1e-3, record_every=2)
RECIPE = training.PreferenceRecipe(
    shape=Shape((1, 1, 1, 1), (8, 8, 8, 8)), schedule=SHORT, lift_from=1, validation=6
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for index, picture in enumerate(natural_pictures(30, (80, 96), seed=2)):
        Image.fromarray(picture).save(folder / f"{index}.png")
    return folder


@pytest.mark.parametrize("name", FAMILIES)
def test_marks_are_visible_to_a_machine_and_differ_each_time(name):
    rng, grey = np.random.default_rng(0), np.full((3, 64, 64), 0.5, np.float32)
    one, other = (add_mark(grey, FAMILIES[name], rng) for _ in range(2))
    assert 0.001 < np.abs(one - grey).mean() < 0.1
    assert not np.array_equal(one, other)


def test_waves_and_gaussian_marks_stay_below_their_highest_frequency():
    rng = np.random.default_rng(1)
    for name in ("waves", "gaussian"):
        spectrum = np.abs(np.fft.fft2(FAMILIES[name].draw(128, rng)))
        axis = np.abs(np.fft.fftfreq(128))
        beyond = np.hypot(axis[:, None], axis) > 0.45
        assert (spectrum[beyond] ** 2).sum() < 0.01 * (spectrum**2).sum()


def test_busy_and_dark_places_hide_more():
    flat, busy = np.full((3, 32, 32), 0.5, np.float32), np.full((3, 32, 32), 0.5, np.float32)
    busy[:, :, ::4] = 1.0
    assert visibility_threshold(busy).mean() > visibility_threshold(flat).mean()
    assert visibility_threshold(flat * 0.1).mean() > visibility_threshold(flat).mean()


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_augmentations_give_8_bit_pictures(name):
    rng = np.random.default_rng(0)
    seen = AUGMENTATIONS[name](rng)(natural_pictures(1, (64, 64), seed=0)[0], rng)
    assert seen.dtype == np.uint8
    assert seen.shape[2] == 3
    assert min(seen.shape[:2]) >= 32


def test_versions_of_a_scene_are_augmented_alike():
    picture = natural_pictures(1, (64, 64), seed=0)[0]
    for seed in range(8):
        np.testing.assert_array_equal(*augment([picture, picture], 2, np.random.default_rng(seed)))


def test_lifting_raises_the_score_and_stays_a_picture():
    torch.manual_seed(0)
    network = PreferenceNetwork(RECIPE.shape).requires_grad_(False)
    images = torch.rand(2, 3, 64, 64)
    cleaned = lift(network, images, steps=5, rate=5.0)
    assert (network(cleaned) > network(images)).all()
    assert cleaned.min() >= 0
    assert cleaned.max() <= 1


def test_an_interrupted_run_is_the_run_that_was_not(folder, tmp_path):
    whole = training.train_preference(folder, tmp_path / "whole", RECIPE)
    half = dataclasses.replace(RECIPE, schedule=dataclasses.replace(SHORT, steps=2))
    training.train_preference(folder, tmp_path / "parts", half)
    resumed = training.train_preference(folder, tmp_path / "parts", RECIPE)
    for one, other in zip(whole.parameters(), resumed.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    history = json.loads((tmp_path / "parts" / "history.json").read_text())
    assert [entry["step"] for entry in history["validation"]] == [2, 4]
    assert "cleaned" not in history["steps"][0]
    assert "cleaned" in history["steps"][1]


def test_a_loss_that_is_not_a_number_stops_the_run(folder, tmp_path):
    bad = dataclasses.replace(RECIPE, schedule=dataclasses.replace(SHORT, rate=float("nan")))
    with pytest.raises(CoverLockError, match=r"the loss is nan at step 1.*no checkpoint yet"):
        training.train_preference(folder, tmp_path, bad)


def test_the_model_that_ships_prefers_unmarked_photos(shared_data):
    network = load_preference("small")
    photos = sorted((shared_data / "cc0").glob("*.jpg"))
    figures = training.validate(network, photos, training.PreferenceRecipe())
    assert figures["preferred"] > 0.8
    assert figures["lifted"] > 0.1


def test_the_model_that_ships_lifts_something():
    marked = natural_pictures(1, (64, 64), seed=0).transpose(0, 3, 1, 2).astype(np.float32) / 255
    targets = np.full((2, 3, 96, 80), 0.5, np.float32)
    forged = PreferenceResidual(side=64, steps=2).forge(marked, targets)
    assert forged.shape == targets.shape
    assert 0 < np.abs(forged - targets).max() < 0.5


def test_a_saved_model_comes_back(tmp_path):
    network = PreferenceNetwork(RECIPE.shape)
    write_weights(tmp_path / "mine.safetensors", network.state_dict(), shape_of(network))
    again = load_preference(str(tmp_path / "mine.safetensors"))
    images = torch.rand(1, 3, 64, 64)
    torch.testing.assert_close(again(images), network(images))


def test_what_is_no_model_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    with pytest.raises(MissingModelError, match="coverlock import wmforger"):
        load_preference("official")
    with pytest.raises(MissingModelError, match="there is no preference model 'nothing'"):
        load_preference("nothing")
    (tmp_path / "broken.safetensors").write_bytes(b"not weights")
    with pytest.raises(CorruptModelError, match="cannot be read as a preference model"):
        load_preference(str(tmp_path / "broken.safetensors"))


def _published_names(network: PreferenceNetwork) -> dict[str, torch.Tensor]:
    """A network's weights under the names of the authors' checkpoint."""
    renamed = {}
    for name, value in network.state_dict().items():
        prefix = next(p for p in PREFIXES if name.startswith(p.ours))
        renamed[prefix.theirs + name.removeprefix(prefix.ours)] = value
    return renamed


def test_the_published_checkpoint_is_imported_by_its_names(tmp_path, monkeypatch):
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    torch.manual_seed(0)
    theirs = PreferenceNetwork(PUBLISHED)
    names = _published_names(theirs)
    assert names["convnext.stages.2.8.pwconv1.weight"].shape == (4 * 384, 384)
    assert names["pixel_decoder.linear.weight"].shape == (1, 768)
    torch.save({"model": names}, tmp_path / "theirs.pth")
    import_official(tmp_path / "theirs.pth")
    images = torch.rand(1, 3, 64, 64)
    with torch.inference_mode():
        torch.testing.assert_close(load_preference("official")(images), theirs(images))


def test_a_checkpoint_of_something_else_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    torch.save({"model": {"linear.weight": torch.zeros(2)}}, tmp_path / "other.pth")
    with pytest.raises(CorruptModelError, match="linear.weight"):
        import_official(tmp_path / "other.pth")
    torch.save({"weights": {}}, tmp_path / "nothing.pth")
    with pytest.raises(CorruptModelError, match="no 'model'"):
        import_official(tmp_path / "nothing.pth")
    assert not (tmp_path / "wmforger").exists()

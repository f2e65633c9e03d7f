from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

torch = pytest.importorskip("torch")

from coverlock_bench.adaptive import attackers as study  # noqa: E402
from coverlock_bench.adaptive import lever_study  # noqa: E402
from coverlock_bench.adaptive.levers import KeyedViews, SeveralHashes, instability  # noqa: E402
from coverlock_bench.adaptive.white_box import GuessedViews, Public, Several, white_box  # noqa: E402
from coverlock_bench.attacks.feature_collision import FeatureCollision  # noqa: E402
from coverlock_bench.ledger import Run  # noqa: E402
from coverlock_sdk import CoverLock, Key, load_hash  # noqa: E402
from coverlock_sdk.cli import build_cli  # noqa: E402
from coverlock_sdk.errors import CoverLockError  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402


@pytest.fixture(scope="module")
def crowd() -> np.ndarray:
    return natural_pictures(4, (128, 128), seed=9)


@pytest.fixture(scope="module")
def images(crowd) -> np.ndarray:
    return study.floats(crowd)


@pytest.mark.parametrize("name", ["nano", "dct"])
def test_a_white_box_is_the_hash_it_stands_for(name, images):
    seen = white_box(name).logits(torch.from_numpy(images), np.random.default_rng(0))
    np.testing.assert_allclose(seen.numpy(), load_hash(name).logits(images), atol=1e-3)


def test_several_hashes_share_the_code(images):
    both = SeveralHashes(["nano", "dct"]).logits(images) > 0
    parts = [load_hash(name).logits(images)[:, :128] > 0 for name in ("nano", "dct")]
    known = Several((Public("nano"), Public("dct"))).logits(
        torch.from_numpy(images), np.random.default_rng(0)
    )
    # Pictures go through one more resampling inside, so bits at the edge may differ.
    assert (np.concatenate(parts, axis=1) == both).mean() > 0.98
    assert ((known.numpy() > 0) == both).mean() > 0.98


def test_views_depend_on_the_key_and_on_nothing_else(images, key):
    def code(secret: Key) -> np.ndarray:
        return KeyedViews("nano", secret, views=2, least=0.6, covered=0.3).logits(images) > 0

    other = Key(bytes(32), id="other")
    np.testing.assert_array_equal(code(key), code(key))
    assert (code(key) != code(other)).mean() > 0.01


def test_whoever_guesses_everything_sees_the_plain_hash(images):
    guessed = GuessedViews(Public("nano"), views=1, least=1.0, covered=0.0)
    seen = guessed.logits(torch.from_numpy(images), np.random.default_rng(0))
    np.testing.assert_allclose(seen.numpy(), load_hash("nano").logits(images), atol=1e-3)


def test_a_flat_picture_is_less_stable_than_a_photo(crowd):
    rng, nano = np.random.default_rng(0), load_hash("nano")
    flat = np.full_like(crowd[0], 127)
    assert instability(nano, flat, rng) > instability(nano, crowd[0], rng)


@pytest.mark.parametrize("budget", [{"budget": 32.0}, {"least_psnr": 22.0}])
def test_a_collision_keeps_its_budget_and_brings_codes_nearer(images, budget):
    marked, targets = np.clip(images[:1] + 0.01, 0, 1), images[2:3]
    attack = FeatureCollision(**budget, steps=5, hash="dct")
    forged = attack.forge(marked, targets, originals=images[:1])
    residual = marked - images[:1]
    change = np.abs(forged - np.clip(targets + residual, 0, 1))
    if "budget" in budget:
        assert change.max() <= 32.01 / 255
    else:
        assert 20 * np.log10(np.sqrt(np.square(change).mean())) <= -21.99
    dct = load_hash("dct")
    aim = dct.logits(marked) > 0
    before, after = ((dct.logits(p) > 0) == aim for p in (targets, forged))
    assert after.mean() > before.mean() + 0.05


def test_no_budget_is_a_plain_transplant(images):
    marked = np.clip(images[:1] + 0.01, 0, 1)
    forged = FeatureCollision(budget=0, hash="dct").forge(marked, images[2:3], originals=images[:1])
    pasted = np.clip(images[2:3] + marked - images[:1], 0, 1)
    np.testing.assert_allclose(forged, pasted, atol=1e-6)


def test_a_hash_without_gradients_is_named():
    with pytest.raises(CoverLockError, match="no differentiable version of the hash 'phash'"):
        white_box("phash")


def test_a_scene_judges_genuine_and_foreign_pictures(additive, crowd, key):
    locked = CoverLock(key=key).protect(additive)
    scene = study.Scene(locked, originals=list(crowd[:2]), targets=list(crowd[2:]))
    marked, originals = scene.released([0, 1])
    genuine = scene.judge(marked, scene.originals)
    foreign = scene.judge(study.floats(scene.targets), scene.targets)
    assert genuine["soft"]["successes"] == 2
    assert foreign["soft"]["successes"] == 0
    assert foreign["soft"]["high"] > 0.5
    assert genuine["psnr"] < foreign["psnr"]
    assert not np.array_equal(marked, originals)


def test_levers_are_measured_once(crowd, tmp_path, monkeypatch):
    monkeypatch.setattr(lever_study, "BUDGETS", (0.0,))
    for index, picture in enumerate(crowd):
        Image.fromarray(picture).save(tmp_path / f"{index}.png")
    photos, run = sorted(tmp_path.glob("*.png")), Run()
    first = lever_study.lever_study(photos, 2, 32, 1e-6, 0, run, only=["none"])
    monkeypatch.setattr(lever_study, "_measure", None)
    assert lever_study.lever_study(photos, 2, 32, 1e-6, 0, run, only=["none"]) == first
    assert first["none"]["forgeries"]["0"]["successes"] == 0
    assert first["none"]["genuine"]["successes"] > 6


def test_too_few_photos_are_counted(tmp_path):
    with pytest.raises(CoverLockError, match="need 60 photos, but there are 3"):
        study.adaptive("additive", "nano", [tmp_path] * 3, 30, 1e-6, 0, Run())


def test_a_misspelt_row_is_refused(tmp_path):
    Image.new("RGB", (64, 64)).save(tmp_path / "1.png")
    arguments = ["bench", "levers", "--images", str(tmp_path), "--only", "secret mask"]
    arguments += ["-o", str(tmp_path / "levers.json")]
    result = CliRunner().invoke(build_cli(), arguments)
    assert result.exit_code == 2
    assert "there is no lever 'secret mask': use none, key that selects bits" in result.output
    assert not (tmp_path / "levers.json").exists()

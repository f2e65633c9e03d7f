from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from coverlock_bench.adaptive import attackers as study  # noqa: E402
from coverlock_bench.adaptive.white_box import module_of, white_box  # noqa: E402
from coverlock_bench.attacks.feature_collision import FeatureCollision  # noqa: E402
from coverlock_bench.ledger import Session  # noqa: E402
from coverlock_bench.trial import floats  # noqa: E402
from coverlock_sdk import CoverLock, load_hash  # noqa: E402
from coverlock_sdk.errors import CoverLockError  # noqa: E402
from coverlock_sdk.hashing.dct import DctHash  # noqa: E402
from coverlock_sdk.plugin_calls import hash_logits  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402


@pytest.fixture(scope="module")
def crowd() -> np.ndarray:
    return natural_pictures(4, (128, 128), seed=9)


@pytest.fixture(scope="module")
def images(crowd) -> np.ndarray:
    return floats(crowd)


@pytest.mark.parametrize("name", ["nano", "dct"])
def test_a_white_box_is_the_hash_it_stands_for(name, images):
    seen = white_box(name).logits(torch.from_numpy(images), np.random.default_rng(0))
    np.testing.assert_allclose(seen.numpy(), hash_logits(load_hash(name), images), atol=1e-3)


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
    aim = hash_logits(dct, marked) > 0
    before, after = ((hash_logits(dct, p) > 0) == aim for p in (targets, forged))
    assert after.mean() > before.mean() + 0.05


def test_no_budget_is_a_plain_transplant(images):
    marked = np.clip(images[:1] + 0.01, 0, 1)
    forged = FeatureCollision(budget=0, hash="dct").forge(marked, images[2:3], originals=images[:1])
    pasted = np.clip(images[2:3] + marked - images[:1], 0, 1)
    np.testing.assert_allclose(forged, pasted, atol=1e-6)


def test_a_hash_without_gradients_is_named(monkeypatch):
    monkeypatch.setattr(DctHash, "module", lambda self: None)
    module_of.cache_clear()
    with pytest.raises(CoverLockError, match="no differentiable version of the hash 'dct'"):
        white_box("dct")
    module_of.cache_clear()


def test_a_scene_judges_genuine_and_foreign_pictures(additive, crowd, key):
    locked = CoverLock(key=key).protect(additive)
    scene = study.Scene(locked, originals=list(crowd[:2]), targets=list(crowd[2:]))
    marked = [scene.marked(0), scene.marked(1)]
    genuine = scene.judge(marked, scene.originals)
    foreign = scene.judge(scene.targets, scene.targets)
    assert genuine["soft"]["successes"] == 2
    assert foreign["soft"]["successes"] == 0
    assert foreign["soft"]["high"] > 0.5
    assert genuine["psnr"] < foreign["psnr"]
    assert not np.array_equal(marked, scene.originals)


def test_too_few_photos_are_counted(tmp_path):
    with pytest.raises(CoverLockError, match="need 60 photos, but there are 3"):
        study.adaptive("additive", "nano", [tmp_path] * 3, 30, 1e-6, 0, Session())

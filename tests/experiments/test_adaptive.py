from __future__ import annotations

import numpy as np
import pytest

from coverlock_bench.attacks.feature_collision import FeatureCollision, differentiable
from coverlock_bench.ledger import Session
from coverlock_bench.trial import floats
from coverlock_sdk import CoverLock, ImageHash, load_hash
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.plugin_calls import hash_logits
from coverlock_sdk.testing import natural_pictures
from experiments import adaptive as study


@pytest.fixture(scope="module")
def crowd() -> np.ndarray:
    return natural_pictures(4, (160, 160), seed=9)


@pytest.fixture(scope="module")
def images(crowd) -> np.ndarray:
    return floats(crowd)


def test_the_gradient_of_the_linear_code_says_what_a_change_does(images):
    rng = np.random.default_rng(0)
    pictures = images[:1, :, :128, :128]
    change = rng.normal(0, 0.01, pictures.shape).astype(np.float32)
    change -= change.mean(axis=(2, 3), keepdims=True)  # the mean is not part of the code
    weights = rng.normal(size=(1, 1024)).astype(np.float32)
    hashed = differentiable(load_hash("octave"))
    before, gradient = hashed(pictures)
    moved = ((hashed(pictures + change)[0] - before) * weights).sum()
    assert moved == pytest.approx((gradient(weights) * change).sum(), rel=0.05)


@pytest.mark.parametrize("budget", [{"budget": 32.0}, {"least_psnr": 22.0}, {"bits": 64}])
def test_a_collision_keeps_its_budget_and_brings_codes_nearer(images, budget):
    marked, targets = np.clip(images[:1] + 0.01, 0, 1), images[2:3]
    forged = FeatureCollision(**budget, steps=5).forge(marked, targets, originals=images[:1])
    residual = marked - images[:1]
    change = np.abs(forged - np.clip(targets + residual, 0, 1))
    if "least_psnr" in budget:
        assert 20 * np.log10(np.sqrt(np.square(change).mean())) <= -21.99
    else:
        assert change.max() <= (budget.get("budget", 4) + 0.01) / 255
    octave = load_hash("octave")
    aim = hash_logits(octave, marked) > 0
    before, after = (((hash_logits(octave, p) > 0) == aim).mean() for p in (targets, forged))
    assert after > before + (0 if "bits" in budget else 0.05)


def test_no_budget_is_a_plain_transplant(images):
    marked = np.clip(images[:1] + 0.01, 0, 1)
    forged = FeatureCollision(budget=0).forge(marked, images[2:3], originals=images[:1])
    pasted = np.clip(images[2:3] + marked - images[:1], 0, 1)
    np.testing.assert_allclose(forged, pasted, atol=1e-6)


def test_a_hash_without_gradients_is_named():
    class Blunt(ImageHash):
        name, input_size = "blunt", (64, 64)

        def logits(self, images):
            return np.ones((len(images), 256), np.float32)

    with pytest.raises(CoverLockError, match="the hash 'blunt' has no gradients"):
        differentiable(Blunt())


def test_a_scene_judges_genuine_and_foreign_pictures(additive, crowd, key):
    locked = CoverLock(key=key).protect(additive)
    scene = study.Scene(locked, originals=list(crowd[:2]), targets=list(crowd[2:]))
    marked = [scene.marked(0), scene.marked(1)]
    genuine = scene.judge(marked, scene.originals)
    foreign = scene.judge(scene.targets, scene.targets)
    assert genuine["asr"]["successes"] == 2
    assert foreign["asr"]["successes"] == 0
    assert foreign["asr"]["high"] > 0.5
    assert genuine["psnr"] < foreign["psnr"]
    assert not np.array_equal(marked, scene.originals)


def test_too_few_photos_are_counted(tmp_path):
    with pytest.raises(CoverLockError, match="need 60 photos, but there are 3"):
        study.adaptive("additive", "octave", [tmp_path] * 3, 30, 1e-6, 0, Session())

import numpy as np
import pytest

from coverlock_bench.attacks.feature_collision import FeatureCollision
from coverlock_bench.trial import floats
from coverlock_sdk import CoverLock, load_hash
from coverlock_sdk.plugin_calls import hash_logits
from coverlock_sdk.testing import natural_pictures
from experiments import adaptive as study


@pytest.fixture(scope="module")
def crowd():
    return natural_pictures(4, (160, 160), seed=9)


@pytest.fixture(scope="module")
def images(crowd):
    return floats(crowd)


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

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from coverlock_bench.photos import to_8_bit
from coverlock_bench.trial import floats
from coverlock_sdk import ImageHash, load_hash
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.images.conversion import read
from coverlock_sdk.plugin_calls import hash_logits
from coverlock_sdk.testing import natural_pictures
from experiments import white_box
from experiments.__main__ import studies
from experiments.white_box import collided, differentiable


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return floats(natural_pictures(4, (160, 160), seed=9))


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


@pytest.mark.parametrize("bits", [None, 64])
def test_a_collision_keeps_its_budget_and_brings_codes_nearer(images, bits):
    octave, sources, targets = load_hash("octave"), images[:1], images[2:3]
    forged = collided(octave, targets, sources, 22.0, bits)
    assert read(to_8_bit(forged[0])).psnr(read(to_8_bit(targets[0]))) >= 21.9
    aim = hash_logits(octave, sources) > 0
    before, after = (((hash_logits(octave, p) > 0) == aim).mean() for p in (targets, forged))
    assert after > before + (0 if bits else 0.05)


def test_a_hash_without_gradients_is_named():
    class Blunt(ImageHash):
        name, input_size = "blunt", (64, 64)

        def logits(self, images):
            return np.ones((len(images), 256), np.float32)

    with pytest.raises(CoverLockError, match="the hash 'blunt' has no gradients"):
        differentiable(Blunt())


@pytest.mark.usefixtures("additive_plugin")
def test_the_study_attacks_locks_with_and_without_a_key(photo_folder, monkeypatch):
    monkeypatch.setattr(white_box, "BUDGETS", (28.0,))
    monkeypatch.setattr(white_box, "STEPS", 1)
    arguments = ["white-box", "-w", "additive", "--images", str(photo_folder), "-o", "r.json"]
    result = CliRunner().invoke(studies, [*arguments, "--count", "2"])
    assert result.exit_code == 0, result.output
    figures = json.loads(Path("r.json").read_text())["figures"]["octave"]
    trials = {arm: row["28 dB"]["asr"]["trials"] for arm, row in figures.items()}
    assert trials == {"a key": 2, "no key": 2}
    result = CliRunner().invoke(studies, [*arguments, "--count", "9"])
    assert "need 18 photos" in " ".join(result.output.split())

from __future__ import annotations

import json
from importlib import resources

import numpy as np
import pytest

from coverlock_sdk.hashing.nano import NanoHash
from coverlock_sdk.hashing.windowed import gelu
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.plugin_calls import picture_logits
from coverlock_sdk.testing import natural_pictures
from coverlock_sdk.training.hashes.figures import pair_agreement


@pytest.fixture(scope="module")
def hash_() -> NanoHash:
    return NanoHash()


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    return natural_pictures(8, (256, 256), seed=5)


def code(hash_: NanoHash, picture: np.ndarray) -> np.ndarray:
    return picture_logits(hash_, picture)[0] > 0


def test_a_distorted_picture_keeps_its_code(hash_: NanoHash, pictures: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    errors = [
        (code(hash_, picture) != code(hash_, distortion(picture, rng))).mean()
        for picture in pictures
        for distortion in EVALUATION.values()
    ]
    assert np.mean(errors) < 0.06


def test_different_pictures_have_different_codes(hash_: NanoHash, pictures: np.ndarray) -> None:
    codes = np.stack([code(hash_, picture) for picture in pictures])
    agreement = pair_agreement(codes)
    assert abs(agreement.mean() - 0.5) < 0.08
    assert agreement.max() < 0.8


def test_a_picture_alone_and_in_a_batch_has_the_same_logits(
    hash_: NanoHash, pictures: np.ndarray
) -> None:
    together = picture_logits(hash_, list(pictures))
    np.testing.assert_allclose(picture_logits(hash_, pictures[3]), together[3:4], atol=1e-4)


def test_gelu_is_the_exact_one() -> None:
    torch = pytest.importorskip("torch")
    x = np.linspace(-4, 4, 33, dtype=np.float32)
    expected = torch.nn.functional.gelu(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(gelu(x), expected, atol=1e-6)


def test_the_shipped_file_is_small_and_its_card_complete() -> None:
    folder = resources.files("coverlock_sdk.hashing") / "weights"
    assert len((folder / "nano.safetensors").read_bytes()) < 10_000_000
    card = json.loads((folder / "nano.json").read_text())
    assert {"network", "recipe", "calibration", "held_out", "versions"} <= set(card)
    assert card["held_out"]["error"] < 0.03

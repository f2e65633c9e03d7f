"""The hash that reads two networks at once."""

from __future__ import annotations

import json
from importlib import resources

import numpy as np
import pytest

from coverlock_sdk import load_hash
from coverlock_sdk.images.distortions import EVALUATION, Crop
from coverlock_sdk.plugin_calls import picture_logits
from coverlock_sdk.testing import natural_pictures
from coverlock_sdk.training.kinds.catalogue import KINDS


def errors(name: str, pictures: np.ndarray, *distortions: str) -> float:
    """The share of bits that these distortions flip."""
    hash_, rng = load_hash(name), np.random.default_rng(0)

    def code(picture: object) -> np.ndarray:
        return picture_logits(hash_, picture)[0] > 0

    changed = [
        (code(picture) != code(EVALUATION[distortion](picture, rng))).mean()
        for picture in pictures
        for distortion in distortions
    ]
    return float(np.mean(changed))


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    return natural_pictures(8, (192, 192), seed=5)


def test_two_networks_keep_more_of_a_cropped_picture_than_one(pictures: np.ndarray) -> None:
    assert EVALUATION["crop"] == Crop(0.8)
    assert errors("duo", pictures, "crop") < errors("keen", pictures, "crop")


def test_a_distorted_picture_keeps_its_code(pictures: np.ndarray) -> None:
    assert errors("duo", pictures, *EVALUATION) < 0.06


def test_only_its_head_is_stored_and_its_card_is_complete() -> None:
    folder = resources.files("coverlock_sdk.hashing") / "weights"
    assert len((folder / "duo.safetensors").read_bytes()) < 2_000_000
    card = json.loads((folder / "duo.json").read_text())
    assert {"network", "recipe", "calibration", "held_out", "versions"} <= set(card)
    assert set(KINDS) <= set(card["held_out"])

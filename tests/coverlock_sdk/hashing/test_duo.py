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

RECORDED = "4a7e12960e4f38e2bdc086d7e3877042a28bae3f630670d94a3de721cea31302"
"""The code of the first picture below."""


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


def test_its_code_does_not_change_with_the_networks_that_it_borrows(pictures: np.ndarray) -> None:
    code = picture_logits(load_hash("duo"), pictures[0])[0] > 0
    recorded = np.unpackbits(np.frombuffer(bytes.fromhex(RECORDED), np.uint8))
    assert (code == recorded).sum() >= 250  # processors round differently


def test_only_its_head_is_stored_and_its_card_is_complete() -> None:
    folder = resources.files("coverlock_sdk.hashing") / "weights"
    assert len((folder / "duo.safetensors").read_bytes()) < 2_000_000
    card = json.loads((folder / "duo.json").read_text())
    assert {"network", "recipe", "calibration", "held_out", "versions"} <= set(card)
    assert set(KINDS) <= set(card["held_out"])

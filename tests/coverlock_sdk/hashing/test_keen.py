"""The hash that ships for every kind of picture."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from coverlock_sdk import load_hash
from coverlock_sdk.contract import ImageHash
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.plugin_calls import picture_logits
from coverlock_sdk.testing import natural_pictures
from coverlock_sdk.training.hashes.figures import pair_agreement
from coverlock_sdk.training.kinds.catalogue import KINDS
from coverlock_sdk.training.kinds.kind import photos_from


@pytest.fixture(scope="module")
def keen() -> ImageHash:
    return load_hash("keen")


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    return natural_pictures(6, (192, 192), seed=5)


def code(hash_: ImageHash, picture: object) -> np.ndarray:
    return picture_logits(hash_, picture)[0] > 0


def test_a_distorted_picture_keeps_its_code(keen: ImageHash, pictures: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    errors = [
        (code(keen, picture) != code(keen, distortion(picture, rng))).mean()
        for picture in pictures
        for distortion in EVALUATION.values()
    ]
    assert np.mean(errors) < 0.06


@pytest.mark.parametrize("kind", ["text of one layout", "ID cards", "QR codes"])
def test_pictures_of_one_template_have_different_codes(
    keen: ImageHash, kind: str, pictures: np.ndarray, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    Image.fromarray(pictures[0]).save(tmp_path / "photo.png")
    photo = photos_from([tmp_path / "photo.png"])
    drawn = [KINDS[kind].draw("validation", 0, content, photo) for content in range(5)]
    agreement = [
        pair_agreement(np.stack([code(hash_, picture) for picture in drawn])).mean()
        for hash_ in (keen, load_hash("nano"))
    ]
    assert agreement[0] < 0.72
    assert agreement[0] < agreement[1]


def test_the_shipped_file_is_small_and_its_card_complete() -> None:
    folder = resources.files("coverlock_sdk.hashing") / "weights"
    assert len((folder / "keen.safetensors").read_bytes()) < 10_000_000
    card = json.loads((folder / "keen.json").read_text())
    assert {"network", "recipe", "calibration", "held_out", "versions"} <= set(card)
    assert set(KINDS) <= set(card["held_out"])

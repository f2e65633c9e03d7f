from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from safetensors.numpy import load_file

from coverlock_sdk import load_hash
from coverlock_sdk.hashing import shipped
from coverlock_sdk.hashing.dct_features import dct_features
from coverlock_sdk.hashing.projection import orthogonal_projection
from coverlock_sdk.images.distortions import Brightness, Contrast, GaussianBlur, Jpeg
from coverlock_sdk.plugin_calls import picture_logits
from coverlock_sdk.testing import natural_pictures
from coverlock_sdk.training.hashes.fit_dct import main

GOLDEN_ROW = [-0.0232693, 0.03588109, -0.03024087, -0.01249281]
GOLDEN_CORNER = -0.014452279


def test_the_projection_is_orthonormal_and_golden():
    """Codes of marked pictures depend on it, so it must never change."""
    projection = orthogonal_projection(512)
    np.testing.assert_allclose(projection.T @ projection, np.eye(256), atol=1e-5)
    np.testing.assert_allclose(projection[0, :4], GOLDEN_ROW, atol=1e-6)
    assert projection[511, 255] == pytest.approx(GOLDEN_CORNER, abs=1e-6)
    with pytest.raises(ValueError, match="do not fit"):
        orthogonal_projection(100)


def test_the_stored_projection_is_the_one_the_seed_gives():
    stored = load_file(str(shipped._resource("dct.safetensors")))["projection"]
    np.testing.assert_allclose(stored, orthogonal_projection(len(stored)), atol=1e-5)


def test_logits_are_256_per_picture_and_the_same_every_time(photos):
    image_hash = load_hash("dct")
    logits = picture_logits(image_hash, photos)
    assert logits.shape == (12, 256)
    np.testing.assert_array_equal(logits, picture_logits(image_hash, photos))
    np.testing.assert_allclose(logits[3], picture_logits(image_hash, photos[3])[0], atol=1e-4)


@pytest.mark.parametrize(
    ("distortion", "limit"),
    [(Jpeg(70), 0.06), (GaussianBlur(1.0), 0.03), (Brightness(1.2), 0.12), (Contrast(1.2), 0.12)],
)
def test_codes_survive_distortion(distortion, limit, photos):
    image_hash = load_hash("dct")
    distorted = np.stack([distortion(p, np.random.default_rng(0)) for p in photos])
    moved = (picture_logits(image_hash, distorted) > 0) != (picture_logits(image_hash, photos) > 0)
    assert moved.mean() < limit


def test_codes_of_different_pictures_agree_by_chance():
    codes = picture_logits(load_hash("dct"), natural_pictures(40, (128, 128), seed=9)) > 0
    agreement = (codes[:, None] == codes[None]).mean(axis=2)[np.triu_indices(40, 1)]
    assert agreement.mean() == pytest.approx(0.5, abs=0.03)
    assert agreement.max() < 0.75


@given(st.floats(0.5, 0.95), st.floats(0, 0.05))
def test_luminance_ignores_brightness_and_contrast(gain, offset):
    picture = natural_pictures(1, (64, 64), seed=2).astype(np.float32).transpose(0, 3, 1, 2) / 255
    changed = (picture * gain + offset).astype(np.float32)
    luminance = slice(0, 135)
    before, after = (dct_features(p)[:, luminance] for p in (picture, changed))
    np.testing.assert_allclose(after, before, atol=2e-3)


def test_flat_pictures_have_a_code_too():
    assert np.isfinite(picture_logits(load_hash("dct"), np.zeros((64, 64, 3), np.uint8))).all()


def test_it_can_be_fitted_on_other_photos(tmp_path):
    for index, picture in enumerate(natural_pictures(60, (64, 64), seed=3)):
        Image.fromarray(picture).save(tmp_path / f"{index:02}.jpg", quality=95)
    result = CliRunner().invoke(main, [str(tmp_path), "--out", str(tmp_path / "weights")])
    assert result.exit_code == 0, result.output
    card = json.loads((tmp_path / "weights" / "dct.json").read_text())
    assert card["photos"]["whitening"] + card["photos"]["held_out"] == 60
    assert set(card["held_out_bit_error"]) >= {"noise", "crop", "mean"}
    assert load_file(tmp_path / "weights" / "dct.safetensors")["projection"].shape[1] == 256

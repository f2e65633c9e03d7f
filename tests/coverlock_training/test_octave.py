"""The matrices of ``octave``, computed from as few pictures as can be."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("matplotlib")


from coverlock_sdk.errors import PictureError
from coverlock_sdk.hashing import octave, shipped
from coverlock_sdk.images.distortions import Crop
from coverlock_sdk.testing import natural_pictures
from coverlock_training.kinds.catalogue import KINDS
from coverlock_training.octave import OctaveRecipe, cropped, fit_octave
from tests.conftest import saved_pictures

FEW = OctaveRecipe(photos=8, held_out=0.3, templates=1, dimensions=(8, 16, 16))


@pytest.fixture(scope="module", autouse=True)
def _two_kinds():
    with pytest.MonkeyPatch.context() as patch:
        few = {name: KINDS[name] for name in ("portraits", "bar codes")}
        patch.setattr("coverlock_training.kinds.collection.KINDS", few)
        yield


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return saved_pictures(tmp_path_factory.mktemp("photos"), 14, (128, 128), 3)


@pytest.fixture(scope="module")
def run(photos, tmp_path_factory):
    run = tmp_path_factory.mktemp("run")
    assert fit_octave(photos, run, FEW) == run / "hash.safetensors"
    return run


def test_too_few_photos_for_so_many_dimensions_are_refused(photos, tmp_path):
    with pytest.raises(PictureError, match="8 photos are too few"):
        fit_octave(photos, tmp_path, replace(FEW, dimensions=(192, 320, 1535), ridge=1e-12))
    assert not (tmp_path / "hash.safetensors").exists()


def test_matrices_and_card_are_those_of_a_hash(run, monkeypatch):
    card = json.loads((run / "hash.json").read_text())
    assert card["recipe"]["photos"] == card["photos"] == 8
    assert card["drawn"] == 2 * 8
    files = {"octave.safetensors": run / "hash.safetensors", "octave.json": run / "hash.json"}
    monkeypatch.setattr(shipped, "_resource", lambda name: files[name])
    monkeypatch.setattr(octave, "shipped_weights", shipped.shipped_weights.__wrapped__)
    monkeypatch.setattr(octave, "shipped_card", shipped.shipped_card.__wrapped__)
    code = octave.OctaveCode()
    assert code.bands == FEW.dimensions
    assert code.calibration.scale > 0
    pictures = natural_pictures(30, (octave.SIDE, octave.SIDE), seed=9)
    logits = code.logits(np.moveaxis(pictures, -1, 1).astype(np.float32) / 255)
    assert 0.2 < np.sqrt(np.square(logits).mean()) < 5


@given(
    st.integers(20, 300),
    st.integers(20, 300),
    st.floats(0.3, 1),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_a_crop_tells_its_frame(height, width, area, anywhere, seed):
    picture = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    crop = Crop(area, anywhere)
    part, frame = cropped(picture, crop, np.random.default_rng(seed))
    np.testing.assert_array_equal(part, crop(picture, np.random.default_rng(seed)))
    assert frame.side == part.shape[0] / height
    left = round(frame.x * width - part.shape[1] / 2)
    top = round(frame.y * height - part.shape[0] / 2)
    expected = picture[top : top + part.shape[0], left : left + part.shape[1]]
    np.testing.assert_array_equal(part, expected)

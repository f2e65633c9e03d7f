"""The matrices of ``octave``, computed from as few pictures as can be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from safetensors.numpy import load_file

from coverlock_sdk.errors import PictureError
from coverlock_sdk.hashing import octave, shipped
from coverlock_sdk.testing import natural_pictures
from experiments.octave import OctaveRecipe, fit_octave
from tests.conftest import saved_pictures

FEW = OctaveRecipe(photos=8, held_out=0.3, dimensions=(8, 16, 16))


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("templates")
    for template in (4, 5):
        saved_pictures(folder / str(template), 4, (128, 128), seed=template)
    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_pictures(tmp_path_factory.mktemp("photos"), 14, (128, 128), seed=3)


@pytest.fixture(scope="module")
def run(photos: Path, templates: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("run")
    assert fit_octave(photos, templates, run, FEW) == run / "hash.safetensors"
    return run


def test_too_few_photos_for_so_many_dimensions_are_refused(
    photos: Path, templates: Path, tmp_path: Path
) -> None:
    many = replace(FEW, dimensions=(192, 320, 1535), ridge=1e-12)
    with pytest.raises(PictureError, match="8 photos are too few"):
        fit_octave(photos, templates, tmp_path, many)
    assert not (tmp_path / "hash.safetensors").exists()


def test_matrices_and_card_are_those_of_a_hash(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = json.loads((run / "hash.json").read_text())
    assert card["recipe"]["photos"] == card["photos"] == 8
    assert card["of_templates"] == 8
    files = {"octave.safetensors": run / "hash.safetensors", "octave.json": run / "hash.json"}
    monkeypatch.setattr(shipped, "shipped_file", lambda name: files[name])
    monkeypatch.setattr(octave, "shipped_weights", shipped.shipped_weights.__wrapped__)
    monkeypatch.setattr(octave, "shipped_card", shipped.shipped_card.__wrapped__)
    code = octave.OctaveCode()
    assert code.bands == FEW.dimensions
    assert code.calibration.scale > 0
    pictures = natural_pictures(30, (octave.SIDE, octave.SIDE), seed=9)
    logits = code.logits(np.moveaxis(pictures, -1, 1).astype(np.float32) / 255)
    assert 0.2 < np.sqrt(np.square(logits).mean()) < 5
    for matrix in load_file(run / "hash.safetensors").values():
        assert matrix.dtype == np.float16
        assert np.linalg.matrix_rank(matrix.astype(np.float64)) == matrix.shape[1]

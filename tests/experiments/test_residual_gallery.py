"""Residuals that are kept to be looked at, and the two figures drawn from them."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from coverlock_sdk.plugin_manager import plugin_manager
from coverlock_sdk.testing import natural_pictures
from experiments import residual_gallery
from experiments.residual_pictures import draw_averaged_residuals, draw_lifted_residuals
from tests.conftest import AdditivePlugin


@pytest.fixture
def figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for index, picture in enumerate(natural_pictures(25, (128, 128), seed=3)):
        Image.fromarray(picture).save(tmp_path / f"{index:02}.png")
    own = natural_pictures(1, (128, 128), seed=4)
    monkeypatch.setattr(residual_gallery, "find_photos", lambda folder: [tmp_path / "00.png"])
    monkeypatch.setattr(residual_gallery, "load_squares", lambda photos, side: list(own))
    monkeypatch.setattr(residual_gallery, "SOURCES", 10)
    monkeypatch.setattr(residual_gallery, "ATTACKS", ("gt", "gt:sources=100"))
    plugin_manager.cache_clear()
    plugin_manager().add("additive", AdditivePlugin())
    yield residual_gallery.residual_gallery(["additive"], tmp_path, seed=0)
    plugin_manager.cache_clear()


def test_a_mark_that_ignores_covers_looks_the_same_on_all(figures, tmp_path: Path) -> None:
    row = figures["additive"]
    first, second = (
        np.asarray(Image.open(io.BytesIO(base64.b64decode(tile["png"]))).convert("RGB"))
        for tile in row["averaged"]
    )
    assert first.shape == (64, 64, 3)
    assert np.corrcoef(first.ravel(), second.ravel())[0, 1] > 0.9
    assert row["correlation"] > 0.9
    assert "100 marked pictures" in row["lifted"]["gt:sources=100"]["not_measured"]  # there are 10
    draw_averaged_residuals(figures, tmp_path / "averaged.svg")
    draw_lifted_residuals(figures, tmp_path / "lifted.svg")
    assert (tmp_path / "averaged-dark.svg").read_text().count("<image") == 2
    lifted = (tmp_path / "lifted.svg").read_text()
    assert lifted.count("<image") == 1
    assert "not measured" in lifted

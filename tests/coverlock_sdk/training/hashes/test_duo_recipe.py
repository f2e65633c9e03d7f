"""The head of ``duo`` computed from as few pictures as can be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from safetensors.numpy import load_file  # noqa: E402

from coverlock_sdk.hashing.duo import DuoModel, borrowed  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402
from coverlock_sdk.training.hashes import curriculum  # noqa: E402
from coverlock_sdk.training.hashes.duo_recipe import DuoRecipe, fit_duo  # noqa: E402
from coverlock_sdk.training.kinds import collection  # noqa: E402
from coverlock_sdk.training.kinds.catalogue import KINDS  # noqa: E402


def test_duo_is_computed_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for number, picture in enumerate(natural_pictures(12, (64, 64), seed=3)):
        Image.fromarray(picture).save(photos / f"{number:03}.png")
    few = {name: KINDS[name] for name in ("QR codes", "logos")}
    monkeypatch.setattr(collection, "KINDS", few)
    monkeypatch.setattr(curriculum, "PER_SET", 3)
    recipe = DuoRecipe(held_out=0.3, templates=1, views=1)
    network = fit_duo(photos, tmp_path / "run", recipe)
    card = json.loads((tmp_path / "run" / "hash.json").read_text())
    assert {"error", "kinds_mean", *few} <= set(card["held_out"])
    stored = load_file(tmp_path / "run" / "hash.safetensors")
    own = {name: value.astype(np.float32) for name, value in stored.items()}
    assert {name.split(".")[1] for name in own} == {"photos", "templates", "gate"}
    images = np.random.default_rng(0).random((2, 3, 160, 160), dtype=np.float32)
    with torch.inference_mode():
        expected = network(torch.from_numpy(images)).numpy()
    logits = DuoModel.build(card["network"], {**borrowed(), **own})(images)
    np.testing.assert_allclose(logits, expected, atol=2e-3 * np.abs(expected).max())

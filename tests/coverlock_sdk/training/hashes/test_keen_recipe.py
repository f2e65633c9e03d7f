"""A whole training run of ``keen``, as small as it can be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from safetensors.numpy import load_file  # noqa: E402

from coverlock_sdk.hashing.keen import KeenModel  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402
from coverlock_sdk.training import results  # noqa: E402
from coverlock_sdk.training.hashes import curriculum  # noqa: E402
from coverlock_sdk.training.hashes.keen_recipe import KeenRecipe, train_keen  # noqa: E402
from coverlock_sdk.training.kinds import collection  # noqa: E402
from coverlock_sdk.training.kinds.catalogue import KINDS  # noqa: E402
from coverlock_sdk.training.loop import Schedule  # noqa: E402

SHORT = Schedule(steps=1, batch=16, rate=1e-3, record_every=1)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, picture in enumerate(natural_pictures(12, (64, 64), seed=3)):
        Image.fromarray(picture).save(folder / f"{number:03}.png")
    return folder


def test_keen_is_trained_in_three_stages_and_written(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {name: KINDS[name] for name in ("QR codes", "logos")}
    monkeypatch.setattr(collection, "KINDS", few)
    monkeypatch.setattr(curriculum, "PER_SET", 3)
    monkeypatch.setattr(results, "draw_curves", lambda history, file: None)
    head = replace(KeenRecipe().head, schedule=SHORT)
    recipe = KeenRecipe(held_out=0.3, templates=1, body=SHORT, whole=SHORT, head=head)
    stages = []
    network = train_keen(photos, tmp_path / "run", recipe, lambda *news: stages.append(news[0]))
    assert list(dict.fromkeys(stages)) == ["body", "whole", "head"]
    card = json.loads((tmp_path / "run" / "hash.json").read_text())
    assert card["recipe"]["adversary"]["share"] > 0
    assert {"error", "kinds_mean", *few} <= set(card["held_out"])
    stored = load_file(tmp_path / "run" / "hash.safetensors")
    weights = {name: value.astype(np.float32) for name, value in stored.items()}
    images = np.random.default_rng(0).random((2, 3, 160, 160), dtype=np.float32)
    with torch.inference_mode():
        expected = network(torch.from_numpy(images)).numpy()
    logits = KeenModel.build(card["network"], weights)(images)
    np.testing.assert_allclose(logits, expected, atol=2e-3)

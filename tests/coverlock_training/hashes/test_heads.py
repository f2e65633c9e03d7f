"""Whole training runs of a head, as small as they can be."""

import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file  # noqa: E402

from coverlock_plugins.dinov2.head import HashHead  # noqa: E402
from coverlock_training.hashes.figures import figures_of  # noqa: E402
from coverlock_training.hashes.heads import (  # noqa: E402
    HeadData,
    HeadRecipe,
    HeadTraining,
    logits_of,
    train_head,
)

SHORT = HeadRecipe(steps=3, batch=4, rate=1e-3, record_every=3)


@pytest.fixture(scope="module")
def data():
    """Features of forty photos, and what is like distortions of them."""
    rng = np.random.default_rng(0)

    def views(count: int, number: int) -> np.ndarray:
        clean = rng.standard_normal((count, 1, 48))
        noise = 0.1 * rng.standard_normal((count, number, 48))
        return np.concatenate([clean, clean + noise], axis=1).astype(np.float32)

    return HeadData(views(30, 4), views(10, 7), {"backbone": "noise"})


def test_a_head_is_trained_rounded_and_written(data, tmp_path):
    seen: list[int] = []
    figures = train_head(data, tmp_path, SHORT, lambda step, _: seen.append(step))
    assert seen == [1, 2, 3, 3]
    card = json.loads((tmp_path / "hash.json").read_text())
    assert card["held_out"] == figures
    assert card["backbone"] == "noise"
    assert (card["photos"], card["held_out_photos"]) == (30, 10)
    weights = load_file(tmp_path / "hash.safetensors")
    assert weights["hidden.weight"].dtype == torch.float16
    head = HashHead(48)
    head.load_state_dict(weights)
    assert figures == figures_of(logits_of(head, data.held_out[:, :7]) > 0)


def test_a_batch_is_photos_and_one_view_of_each(tmp_path):
    values = np.arange(4 * 3, dtype=np.float32).reshape(4, 3, 1)
    training = HeadTraining(HashHead(1), values, SHORT, tmp_path)
    clean, distorted = training.draw(0, np.random.default_rng(0))[:, 0].chunk(2)
    assert sorted(clean.tolist()) == [0, 3, 6, 9]
    assert set((distorted - clean).tolist()) <= {1, 2}


def test_training_lowers_the_loss_and_is_decided_by_the_seed(data, tmp_path):
    def curve(seed: int, folder: str) -> list[dict[str, float]]:
        recipe = replace(SHORT, steps=30, curve_every=1, seed=seed)
        train_head(data, tmp_path / folder, recipe)
        return json.loads((tmp_path / folder / "head" / "history.json").read_text())["steps"]

    steps = curve(0, "one")
    assert steps[-1]["total"] < 0.7 * steps[0]["total"]
    assert {"contrastive", "stability", "balance", "variance"} < set(steps[0])
    assert curve(0, "two") == steps
    assert curve(1, "three") != steps


@pytest.mark.gpu
def test_heads_are_trained_on_a_gpu(data, tmp_path):
    assert train_head(data, tmp_path, SHORT, bfloat16=True, device="cuda")["error"] < 0.6

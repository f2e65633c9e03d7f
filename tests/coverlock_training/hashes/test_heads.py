"""Whole training runs of a head, as small as they can be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")

from safetensors.torch import load_file  # noqa: E402

from coverlock_sdk.hashing.network import HashHead  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402
from coverlock_training.hashes.figures import figures_of  # noqa: E402
from coverlock_training.hashes.heads import (  # noqa: E402
    HeadData,
    HeadRecipe,
    head_data,
    logits_of,
    train_head,
)
from coverlock_training.loop import Schedule  # noqa: E402
from tests.coverlock_training.hashes.averages import Averages  # noqa: E402

SHORT = HeadRecipe(schedule=Schedule(steps=3, batch=4, rate=1e-3, record_every=3), held_out=0.3)


@pytest.fixture(scope="module")
def data() -> HeadData:
    """Features of forty photos, and what is like distortions of them."""
    rng = np.random.default_rng(0)

    def views(count: int, number: int) -> np.ndarray:
        clean = rng.standard_normal((count, 1, 48))
        noise = 0.1 * rng.standard_normal((count, number, 48))
        return np.concatenate([clean, clean + noise], axis=1).astype(np.float32)

    return HeadData(views(30, 4), views(10, 7), {"backbone": "noise"})


def test_the_default_recipe_is_the_papers() -> None:
    recipe = HeadRecipe()
    schedule = recipe.schedule
    assert (schedule.steps, schedule.batch, schedule.rate) == (200_000, 256, 3e-5)
    assert (schedule.warmup, schedule.decay) == (0, 0)
    assert recipe.views == 10


def test_a_head_is_trained_rounded_and_written(data: HeadData, tmp_path: Path) -> None:
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


@pytest.mark.slow
def test_a_finished_run_goes_on_with_more_steps(data: HeadData, tmp_path: Path) -> None:
    longer = replace(SHORT, schedule=replace(SHORT.schedule, steps=6))
    train_head(data, tmp_path / "parts", SHORT)
    resumed = train_head(data, tmp_path / "parts", longer)
    assert resumed == train_head(data, tmp_path / "whole", longer)


def test_features_come_from_a_folder_of_photos(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, picture in enumerate(natural_pictures(12, (64, 64), seed=3)):
        Image.fromarray(picture).save(folder / f"{number:03}.png")
    data = head_data(Averages(), folder, tmp_path / "cache", replace(SHORT, views=2))
    assert len(data.training) + len(data.held_out) == 12
    assert data.training.shape[1:] == (3, 48)
    assert data.held_out.shape[1:] == (8, 48)
    assert data.about["network"] == {"cells": 4}


@pytest.mark.gpu
def test_heads_are_trained_on_a_gpu(data: HeadData, tmp_path: Path) -> None:
    assert train_head(data, tmp_path, SHORT, bfloat16=True, device="cuda")["error"] < 0.6

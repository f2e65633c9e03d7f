from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from coverlock_sdk.errors import CoverLockError  # noqa: E402
from coverlock_sdk.hashing.network import Backbone, HashHead  # noqa: E402
from coverlock_sdk.training.hashes.features import CachedFeatures  # noqa: E402
from coverlock_sdk.training.hashes.losses import Objective  # noqa: E402
from coverlock_sdk.training.hashes.trainer import train  # noqa: E402
from coverlock_sdk.training.loop import Schedule  # noqa: E402

SCHEDULE = Schedule(steps=6, batch=8, rate=1e-3, warmup=2, decay=2, averaging=0.5, record_every=3)


class Noisy:
    """Features of forty pictures, and of their views: the same plus a little noise."""

    def __init__(self, noise: float = 0.1) -> None:
        self.features = np.random.default_rng(0).standard_normal((40, 12), dtype=np.float32)
        self.noise = noise

    def __len__(self) -> int:
        return len(self.features)

    def pairs(self, rows, rng):
        clean = self.features[rows]
        noise = self.noise * rng.standard_normal(clean.shape, dtype=np.float32)
        return torch.from_numpy(clean), torch.from_numpy(clean + noise)


def new_head() -> HashHead:
    torch.manual_seed(0)
    return HashHead(12)


def weights(head: HashHead) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in head.parameters()])


def test_training_lowers_the_loss_and_keeps_every_term(tmp_path: Path) -> None:
    schedule = replace(SCHEDULE, steps=60, record_every=60)
    train(new_head(), Noisy(), Objective(), schedule, tmp_path)
    steps = json.loads((tmp_path / "history.json").read_text())["steps"]
    assert len(steps) == 60
    assert steps[-1]["total"] < 0.5 * steps[0]["total"]
    assert {"contrastive", "stability", "balance", "variance"} < set(steps[0])


def test_the_same_seed_gives_the_same_weights(tmp_path: Path) -> None:
    one = train(new_head(), Noisy(), Objective(), SCHEDULE, tmp_path / "one")
    two = train(new_head(), Noisy(), Objective(), SCHEDULE, tmp_path / "two")
    other = train(new_head(), Noisy(), Objective(), replace(SCHEDULE, seed=1), tmp_path / "three")
    assert torch.equal(weights(one), weights(two))
    assert not torch.equal(weights(one), weights(other))


def test_bfloat16_learns_the_same_with_other_rounding(tmp_path: Path) -> None:
    losses = []
    for bfloat16 in (False, True):
        folder = tmp_path / str(bfloat16)
        head = train(new_head(), Noisy(), Objective(), SCHEDULE, folder, bfloat16=bfloat16)
        assert weights(head).dtype == torch.float32
        losses.append(json.loads((folder / "history.json").read_text())["steps"][-1]["total"])
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)


def test_an_interrupted_run_ends_where_the_whole_one_does(tmp_path: Path) -> None:
    whole = train(new_head(), Noisy(), Objective(), SCHEDULE, tmp_path / "whole")

    def interrupt(step: int, figures: dict[str, float]) -> None:
        if step == 5:
            raise KeyboardInterrupt

    arguments = (Noisy(), Objective(), SCHEDULE, tmp_path / "parts")
    with pytest.raises(KeyboardInterrupt):
        train(new_head(), *arguments, report=interrupt)
    resumed = train(HashHead(12), *arguments)  # its initial weights do not matter
    assert torch.equal(weights(whole), weights(resumed))
    assert len(json.loads((tmp_path / "parts" / "history.json").read_text())["steps"]) == 6


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    class Broken(Noisy):
        def pairs(self, rows, rng):
            clean, distorted = super().pairs(rows, rng)
            return clean, distorted * torch.nan

    with pytest.raises(CoverLockError, match=r"nan at step 0, learning rate 0\.0005"):
        train(new_head(), Broken(), Objective(), SCHEDULE, tmp_path)


def test_a_gradient_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    class Rooted(HashHead):
        def logits_of(self, embedding):
            root = (0 * next(self.parameters())).sum().sqrt()  # 0, with an infinite slope
            return super().logits_of(embedding) + root

    with pytest.raises(CoverLockError, match="the gradient is nan at step 0"):
        train(Rooted(12), Noisy(), Objective(), SCHEDULE, tmp_path)
    assert not (tmp_path / "checkpoint.pt").exists()


def test_validation_sees_the_averaged_weights(tmp_path: Path) -> None:
    seen = []
    kept = train(
        new_head(),
        Noisy(),
        Objective(),
        SCHEDULE,
        tmp_path,
        validate=lambda model: seen.append(weights(model)) or {"error": 0.25},
    )
    assert len(seen) == 2
    assert torch.equal(seen[-1], weights(kept))
    history = json.loads((tmp_path / "history.json").read_text())
    assert history["validation"] == [{"step": 3, "error": 0.25}, {"step": 6, "error": 0.25}]


def test_cached_features_are_those_of_the_backbone(tmp_path: Path) -> None:
    class Doubling(Backbone):
        size, features = 1, 12
        settings: ClassVar = {}

        def __init__(self, factor: float) -> None:
            super().__init__()
            self.factor = torch.nn.Parameter(torch.tensor(factor))

        def forward(self, inputs):
            return self.factor * inputs

    data = Noisy(noise=0.0)
    cached = CachedFeatures(Doubling(2.0), data, 3, tmp_path, key="test")
    assert cached.features.shape == (40, 4, 12)
    clean, distorted = cached.pairs(np.array([3, 5]), np.random.default_rng(0))
    np.testing.assert_allclose(clean, 2 * data.features[[3, 5]])
    np.testing.assert_allclose(distorted, 2 * data.features[[3, 5]])
    other = CachedFeatures(Doubling(3.0), data, 3, tmp_path, key="test")
    np.testing.assert_allclose(other.features[:, 0], 3 * data.features, rtol=1e-6)

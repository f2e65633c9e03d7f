from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from coverlock_sdk.errors import CoverLockError  # noqa: E402
from coverlock_sdk.hashing.network import HashHead  # noqa: E402
from coverlock_training.hashes.losses import Objective  # noqa: E402
from coverlock_training.hashes.trainer import HashTraining  # noqa: E402
from coverlock_training.loop import Schedule  # noqa: E402

SCHEDULE = Schedule(steps=6, batch=8, rate=1e-3, warmup=2, decay=2, record_every=3)


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


def train(*given, report=None, **options) -> HashHead:
    return HashTraining(*given, **options).run(report)


def weights(head: HashHead) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in head.parameters()])


@pytest.mark.slow
def test_training_lowers_the_loss_and_keeps_every_term(tmp_path: Path) -> None:
    schedule = replace(SCHEDULE, steps=60, record_every=60)
    train(new_head(), Noisy(), Objective(), schedule, tmp_path)
    steps = json.loads((tmp_path / "history.json").read_text())["steps"]
    assert len(steps) == 60
    assert steps[-1]["total"] < 0.5 * steps[0]["total"]
    assert {"contrastive", "stability", "balance", "variance"} < set(steps[0])


def test_curves_may_have_a_point_only_now_and_then(tmp_path: Path) -> None:
    train(new_head(), Noisy(), Objective(), replace(SCHEDULE, curve_every=4), tmp_path)
    steps = json.loads((tmp_path / "history.json").read_text())["steps"]
    assert [record["step"] for record in steps] == [0, 4]


def test_few_photos_fill_a_large_batch(tmp_path: Path) -> None:
    training = HashTraining(
        new_head(), Noisy(), Objective(), replace(SCHEDULE, batch=100), tmp_path
    )
    assert training.draw(0, np.random.default_rng(0)).shape == (200, 12)


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


def test_validation_sees_the_weights_that_are_kept(tmp_path: Path) -> None:
    seen = []
    kept = train(
        new_head(),
        Noisy(),
        Objective(),
        SCHEDULE,
        tmp_path,
        measure=lambda model: seen.append(weights(model)) or {"error": 0.25},
    )
    assert len(seen) == 2
    assert torch.equal(seen[-1], weights(kept))
    history = json.loads((tmp_path / "history.json").read_text())
    assert history["validation"] == [{"step": 3, "error": 0.25}, {"step": 6, "error": 0.25}]

import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from coverlock_plugins.dinov2.head import HashHead  # noqa: E402
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
def test_training_lowers_the_loss_and_keeps_every_term(tmp_path):
    schedule = replace(SCHEDULE, steps=60, record_every=60)
    train(new_head(), Noisy(), Objective(), schedule, tmp_path)
    steps = json.loads((tmp_path / "history.json").read_text())["steps"]
    assert len(steps) == 60
    assert steps[-1]["total"] < 0.5 * steps[0]["total"]
    assert {"contrastive", "stability", "balance", "variance"} < set(steps[0])


def test_the_same_seed_gives_the_same_weights(tmp_path):
    one = train(new_head(), Noisy(), Objective(), SCHEDULE, tmp_path / "one")
    two = train(new_head(), Noisy(), Objective(), SCHEDULE, tmp_path / "two")
    other = train(new_head(), Noisy(), Objective(), replace(SCHEDULE, seed=1), tmp_path / "three")
    assert torch.equal(weights(one), weights(two))
    assert not torch.equal(weights(one), weights(other))


def test_validation_sees_the_averaged_weights(tmp_path):
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

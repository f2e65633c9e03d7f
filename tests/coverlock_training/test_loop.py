"""The training loop, on a model of one number."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from coverlock_sdk.errors import CoverLockError  # noqa: E402
from coverlock_training.loop import Schedule, Training  # noqa: E402

SCHEDULE = Schedule(steps=6, batch=8, rate=1e-3, warmup=2, decay=2, record_every=3)


class Guess(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.value = torch.nn.Parameter(torch.zeros(()))


class Guessing(Training):
    """Learns the mean of what is drawn."""

    def __init__(self, schedule: Schedule, folder: Path) -> None:
        super().__init__(Guess(), schedule, folder)
        self.drawn: list[int] = []

    def draw(self, step, rng):
        self.drawn.append(step)
        return torch.from_numpy(rng.normal(3.0, 1.0, self.schedule.batch))

    def learn(self, batch):
        loss = (batch - self.model.value).square().mean()
        self.descend(loss)
        return {"loss": loss.item()}

    def validate(self):
        return {"value": self.model.value.item()}


def test_the_rate_rises_stays_and_falls():
    rates = [round(SCHEDULE.rate_at(step) * 1e3, 6) for step in range(6)]
    assert rates == [0.5, 1, 1, 1, 1, 0.5]


def test_every_step_is_drawn_once_and_none_beyond_the_last(tmp_path):
    run = Guessing(SCHEDULE, tmp_path)
    run.run()
    assert run.drawn == [0, 1, 2, 3, 4, 5]
    again = Guessing(SCHEDULE, tmp_path)
    again.run()
    assert again.drawn == []
    assert again.history == run.history


def test_a_resumed_run_is_the_run_that_was_not_interrupted(tmp_path):
    def interrupt(step: int, figures: dict[str, float]) -> None:
        if step == 5:
            raise KeyboardInterrupt

    whole = Guessing(SCHEDULE, tmp_path / "whole")
    whole.run()
    with pytest.raises(KeyboardInterrupt):
        Guessing(SCHEDULE, tmp_path / "parts").run(interrupt)
    resumed = Guessing(SCHEDULE, tmp_path / "parts")
    resumed.run()
    assert resumed.history == whole.history
    assert resumed.model.value == whole.model.value
    assert [record["step"] for record in resumed.history.validation] == [3, 6]


def test_a_rate_that_is_not_a_number_stops_the_run(tmp_path):
    with pytest.raises(CoverLockError, match="the loss is nan at step 1, learning rate nan; there"):
        Guessing(Schedule(steps=3, batch=2, rate=float("nan")), tmp_path).run()

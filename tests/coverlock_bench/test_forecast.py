"""What progress says about the rest of a long run."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from coverlock_bench.forecast import Forecast, OverallProgress, duration


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def run_stage(forecast: Forecast, clock: Clock, stage: str, steps: int, seconds: float) -> None:
    forecast.begin(stage, steps)
    for _ in range(steps):
        clock.now += seconds
        forecast.step()


def test_nothing_is_known_at_first() -> None:
    forecast = Forecast(["a: x", "b: x"], Clock())
    assert forecast.remaining() is None


def test_a_stage_is_expected_to_take_what_the_last_of_its_kind_took() -> None:
    clock = Clock()
    forecast = Forecast(["a: slow", "a: quick", "b: slow", "b: quick"], clock)
    run_stage(forecast, clock, "a: slow", 4, 10.0)
    run_stage(forecast, clock, "a: quick", 2, 1.0)
    assert forecast.stage == 2
    assert forecast.remaining() == pytest.approx(42.0)
    forecast.begin("b: slow", 4)
    clock.now += 10.0
    forecast.step()
    assert forecast.remaining() == pytest.approx(32.0)


def test_a_stage_of_an_unknown_kind_is_expected_to_be_average() -> None:
    clock = Clock()
    forecast = Forecast(["a: x", "a: y", "a: z"], clock)
    run_stage(forecast, clock, "a: x", 1, 2.0)
    run_stage(forecast, clock, "a: y", 1, 4.0)
    assert forecast.remaining() == pytest.approx(3.0)


def test_stages_that_did_not_take_place_are_passed_over() -> None:
    clock = Clock()
    forecast = Forecast(["a: x", "b: x", "c: x"], clock)
    run_stage(forecast, clock, "a: x", 1, 5.0)
    run_stage(forecast, clock, "c: x", 1, 5.0)
    assert forecast.stage == 3
    assert forecast.remaining() == 0


def test_a_terminal_shows_the_stage_and_the_time_that_is_left() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    with OverallProgress("audit", ["a: gt", "b: gt"], console=console) as overall:
        for stage in ("a: gt", "b: gt"):
            assert list(overall.steps([1, 2, 3], stage)) == [1, 2, 3]
            assert overall.left().endswith("left")
    assert "audit 2/2: b: gt 3 of 3" in screen.getvalue()


def test_a_deadline_bounds_what_is_left() -> None:
    overall = OverallProgress("audit", ["a: gt"], deadline=0.0)
    assert overall.left() == "about 5 s left"


@pytest.mark.parametrize(
    ("seconds", "words"), [(2, "5 s"), (42, "40 s"), (100, "2 min"), (11_999, "3 h 20 min")]
)
def test_time_spans_are_said_as_people_do(seconds: float, words: str) -> None:
    assert duration(seconds) == words

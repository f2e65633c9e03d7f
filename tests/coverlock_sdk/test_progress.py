from __future__ import annotations

import pytest

from coverlock_sdk import progress as module
from coverlock_sdk.progress import progress


def test_a_log_gets_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", -1.0)
    assert list(progress([7, 8], "photos")) == [7, 8]
    assert capsys.readouterr().err.splitlines() == ["photos: 0 of 2", "photos: 1 of 2"]
    assert list(progress(iter("ab"), "letters")) == ["a", "b"]
    assert "letters: 1" in capsys.readouterr().err


@pytest.mark.parametrize(("quiet", "seconds"), [(True, -1.0), (False, 30.0)])
def test_short_or_quiet_loops_say_nothing(
    quiet: bool,
    seconds: float,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", seconds)
    assert list(progress(range(3), quiet=quiet)) == [0, 1, 2]
    assert capsys.readouterr().err == ""

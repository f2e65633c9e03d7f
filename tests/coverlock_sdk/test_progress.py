from coverlock_sdk import progress as module
from coverlock_sdk.progress import progress


def test_a_log_gets_a_line_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", -1.0)
    assert list(progress([7, 8], "photos")) == [7, 8]
    assert capsys.readouterr().err.splitlines() == ["photos: 0 of 2", "photos: 1 of 2"]
    assert list(progress(iter("ab"), "letters")) == ["a", "b"]
    assert "letters: 1" in capsys.readouterr().err

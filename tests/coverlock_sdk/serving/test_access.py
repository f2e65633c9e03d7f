from __future__ import annotations

import json
import stat

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import AccessError
from coverlock_sdk.serving.access import Caller, Callers, RateLimit, add_token


def test_a_token_is_known_by_its_digest_only(tmp_path):
    path = tmp_path / "tokens.json"
    token = add_token(path, "shop", ("verify", "detail"), rate=5, burst=7)
    assert token not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    caller = Callers.load(path).holder(token)
    assert (caller.name, caller.scopes, caller.rate, caller.burst) == (
        "shop",
        ("verify", "detail"),
        5,
        7,
    )
    assert Callers.load(path).holder(token + "x") is None


def test_a_new_token_replaces_the_old_and_leaves_others_alone(tmp_path):
    path = tmp_path / "tokens.json"
    first = add_token(path, "shop", ("verify",), 10, 20)
    other = add_token(path, "lab", ("verify",), 10, 20)
    second = add_token(path, "shop", ("verify",), 10, 20)
    callers = Callers.load(path)
    assert callers.holder(first) is None
    assert callers.holder(second).name == "shop"
    assert callers.holder(other).name == "lab"


@pytest.mark.parametrize("content", ["", "[]", '{"callers": [{"name": "x"}]}', '{"callers": 3}'])
def test_a_damaged_token_file_is_refused(tmp_path, content):
    path = tmp_path / "tokens.json"
    path.write_text(content)
    with pytest.raises(AccessError, match="is not a token file"):
        Callers.load(path)


def test_a_missing_token_file_names_the_command(tmp_path):
    with pytest.raises(AccessError, match="coverlock token"):
        Callers.load(tmp_path / "none.json")


def test_strange_callers_are_refused():
    for changes in ({"name": "a b"}, {"scopes": ("admin",)}, {"rate": 0}, {"burst": 0}):
        with pytest.raises(AccessError):
            Caller(**{"name": "shop", "sha256": "0", **changes})


@given(
    rate=st.floats(0.1, 100),
    burst=st.integers(1, 50),
    pauses=st.lists(st.floats(0, 2), max_size=200),
)
def test_no_caller_exceeds_burst_plus_rate(rate, burst, pauses):
    now = 0.0
    caller = Caller("shop", "0", rate=rate, burst=burst)
    limit = RateLimit(lambda: now)
    allowed = 0
    for pause in pauses:
        now += pause
        allowed += limit.wait(caller.name, caller.rate, caller.burst) == 0
    assert allowed <= burst + rate * now + 1e-6


def test_whoever_waits_as_long_as_told_is_let_in():
    now = 0.0
    caller = Caller("shop", "0", rate=0.5, burst=1)
    limit = RateLimit(lambda: now)
    assert limit.wait(caller.name, caller.rate, caller.burst) == 0
    now += limit.wait(caller.name, caller.rate, caller.burst) + 1e-9
    assert limit.wait(caller.name, caller.rate, caller.burst) == 0


def test_names_that_strangers_choose_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr("coverlock_sdk.serving.access.MOST_BUCKETS", 50)
    limit = RateLimit(lambda: 0.0)
    for number in range(500):
        assert limit.wait(("shop", str(number)), rate=0.1, burst=2) == 0
        limit.wait("shop", rate=0.1, burst=3)
    assert len(limit._levels) == 50
    assert limit.wait("shop", rate=0.1, burst=3) > 0  # a name in use is not the one forgotten


def test_a_service_for_everybody_is_refused(tmp_path):
    result = CliRunner().invoke(build_cli(), ["serve", str(tmp_path), "--host", "0.0.0.0"])
    assert result.exit_code == 2
    assert "would answer everybody" in result.output


def test_the_token_command_prints_the_token_once(tmp_path):
    path = tmp_path / "tokens.json"
    line = ["token", "shop", "--file", str(path), "--may", "verify", "--may", "metrics"]
    token = CliRunner().invoke(build_cli(), line).output.strip()
    assert Callers.load(path).holder(token).scopes == ("verify", "metrics")
    assert json.loads(path.read_text())["callers"][0]["name"] == "shop"

from __future__ import annotations

import json
import stat

import pytest
from click.testing import CliRunner

from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import AccessError
from coverlock_sdk.serving.access import Caller, Callers, add_token


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
    for changes in (
        {"name": "a b"},
        {"scopes": ("admin",)},
        {"rate": 0},
        {"rate": 1e-310},
        {"burst": 0},
        {"prefixes": ("",)},
    ):
        with pytest.raises(AccessError):
            Caller(**{"name": "shop", "sha256": "0", **changes})


def test_a_rate_that_means_nothing_is_a_clear_error(tmp_path):
    path = tmp_path / "tokens.json"
    entry = {"name": "shop", "sha256": "0" * 64, "scopes": ["verify"], "rate": 1e-310}
    path.write_text(json.dumps({"callers": [entry]}))
    with pytest.raises(AccessError, match="'shop' has a rate of 1e-310"):
        Callers.load(path)


def test_a_token_marks_what_its_prefixes_allow(tmp_path):
    path = tmp_path / "tokens.json"
    line = ["token", "studio", "--file", str(path), "--may", "embed", "--prefix", "order-"]
    CliRunner().invoke(build_cli(), [*line, "--prefix", "test/"])
    [caller] = Callers.load(path).all
    assert caller.prefixes == ("order-", "test/")
    assert caller.may_mark("order-4711")
    assert not caller.may_mark("invoice-1")
    assert Caller("any", "0").may_mark("invoice-1")


def test_a_service_for_everybody_is_refused(tmp_path):
    result = CliRunner().invoke(build_cli(), ["serve", str(tmp_path), "--listen", "0.0.0.0:8000"])
    assert result.exit_code == 2
    assert "would answer anybody" in result.output


def test_the_token_command_prints_the_token_once(tmp_path):
    path = tmp_path / "tokens.json"
    line = ["token", "shop", "--file", str(path), "--may", "verify", "--may", "metrics"]
    token = CliRunner().invoke(build_cli(), line).output.strip()
    assert Callers.load(path).holder(token).scopes == ("verify", "metrics")
    assert json.loads(path.read_text())["callers"][0]["name"] == "shop"

import stat

import pytest
from click.testing import CliRunner

from coverlock_plugins.service.access import Caller, Callers, add_token, digest
from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import CoverLockError


def test_a_token_is_known_by_its_digest_only(tmp_path):
    path = tmp_path / "tokens.json"
    token = add_token(path, "shop", ("verify", "detail"), rate=5, burst=7)
    assert token not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    caller = Callers.load(path).holder(token)
    assert caller == Caller("shop", digest(token), ("verify", "detail"), rate=5, burst=7)
    assert Callers.load(path).holder(token + "x") is None


def test_a_new_token_replaces_the_old_and_leaves_others_alone(tmp_path):
    path = tmp_path / "tokens.json"
    first, other, second = (add_token(path, name, ("verify",)) for name in ("shop", "lab", "shop"))
    holders = [Callers.load(path).holder(token) for token in (first, other, second)]
    assert [holder and holder.name for holder in holders] == [None, "lab", "shop"]


def test_a_token_marks_what_its_prefixes_allow(tmp_path):
    path = tmp_path / "tokens.json"
    line = ["token", "studio", "--file", str(path), "--may", "embed", "--prefix", "order-"]
    token = CliRunner().invoke(build_cli(), [*line, "--prefix", "test/"]).output.strip()
    caller = Callers.load(path).holder(token)
    assert (caller.name, caller.scopes) == ("studio", ("embed",))
    assert caller.prefixes == ("order-", "test/")
    assert caller.may_mark("order-4711")
    assert not caller.may_mark("invoice-1")
    assert Caller("any", "0").may_mark("invoice-1")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "coverlock token"),
        ("", "is not a token file"),
        ("[]", "is not a token file"),
        ('{"callers": [{"name": "x"}]}', "is not a token file"),
        ('{"callers": 3}', "is not a token file"),
        ('{"callers": [{"name": "a b", "sha256": "0"}]}', "name"),
        ('{"callers": [{"name": "a", "sha256": "0", "scopes": ["admin"]}]}', "'admin'.*scopes"),
        ('{"callers": [{"name": "a", "sha256": "0", "rate": 1e-310}]}', "rate"),
        ('{"callers": [{"name": "a", "sha256": "0", "burst": 0}]}', "burst"),
        ('{"callers": [{"name": "a", "sha256": "0", "prefixes": [""]}]}', "prefixes"),
    ],
)
def test_a_damaged_token_file_is_refused(tmp_path, content, complaint):
    if content is not None:
        (tmp_path / "tokens.json").write_text(content)
    with pytest.raises(CoverLockError, match=complaint):
        Callers.load(tmp_path / "tokens.json")


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [(["a b"], "is not a name"), (["a", "--rate", "0"], "rate"), (["a", "--prefix", ""], "pre")],
)
def test_a_token_that_cannot_be_is_not_made(tmp_path, wrong, complaint):
    file = tmp_path / "tokens.json"
    result = CliRunner().invoke(build_cli(), ["token", *wrong, "--file", str(file)])
    assert (result.exit_code, complaint in result.output, file.exists()) == (2, True, False)

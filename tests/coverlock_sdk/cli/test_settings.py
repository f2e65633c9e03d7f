"""Options: those that do nothing are refused, and what is wrong with one is said once."""

import json

import pytest
from PIL import Image

from coverlock_sdk.bundles.signing import generate_signing_key
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.loading import parse_setting
from coverlock_sdk.locking.keys import generate_key
from coverlock_sdk.plugin_manager import plugin_manager
from coverlock_sdk.verifier.audit_log import AuditLog
from tests.coverlock_sdk.cli.conftest import LOCK, complaint, run, run_json
from tests.toy_bundle import toy_lock


def test_options_of_bundles_are_refused_without_one(folder):
    nonsense = ("--trust", "nonsense", "--runtime", "nonsense:int3", "--workers", "2")
    said = complaint("verify", folder / "a.png", *LOCK, *nonsense)
    assert "without --bundle, leave out --runtime, --trust, --workers" in said
    ids = folder / "notes.txt"
    said = complaint("identify", folder, "-w", "additive", "--ids", ids, "--runtime", "cpu")
    assert "without --bundle, leave out --runtime" in said


@pytest.mark.parametrize("command", ["verify", "identify"])
def test_a_bundle_is_not_a_watermark_and_its_runtime_is_one_that_there_is(command, folder, toy):
    message = ("--id", "x") if command == "verify" else ("--ids", folder / "notes.txt")
    arguments = (command, folder, "--bundle", toy, *message)
    assert "either a watermark" in complaint(*arguments, "-w", "additive")
    assert "no runtime 'nonsense'" in complaint(*arguments, "--runtime", "nonsense")
    assert "not in int3" in complaint(*arguments, "--runtime", "cpu:int3")


@pytest.mark.parametrize("rate", ["0", "1", "-1", "2", "nan", "inf"])
def test_a_false_positive_rate_lies_between_0_and_1(rate, folder, toy, tmp_path):
    ids = folder / "notes.txt"
    bundle = ("--bundle", toy, "--runtime", "cpu")
    for arguments in (
        ("verify", folder, *LOCK),
        ("verify", folder, *bundle, "--id", "x"),
        ("verify", folder, *bundle, "--id", "x", "--workers", "1"),
        ("identify", folder, "-w", "additive", "--ids", ids),
        ("identify", folder, *bundle, "--ids", ids),
    ):
        assert "must be strictly between 0 and 1" in complaint(*arguments, "--fpr", rate)


def test_a_setting_is_a_name_with_options():
    assert parse_setting("gt") == ("gt", {})
    parsed = parse_setting("mark: bits=32, strong=true,card=a.json,rate=1e-3")
    assert parsed == ("mark", {"bits": 32, "strong": True, "card": "a.json", "rate": 1e-3})
    with pytest.raises(CoverLockError, match="'bits' in 'mark:bits' is not OPTION=VALUE"):
        parse_setting("mark:bits")


def test_watermarks_take_options(folder):
    lock = ("-w", "additive:bits=64", "--id", "x")
    [row] = run_json("embed", folder / "a.png", *lock)["results"]
    assert row["bits"] == 64
    run("verify", row["out"], *lock)
    assert run_json("calibrate", "additive:bits=64", "--images", folder)["scale"] > 0
    said = complaint("verify", folder, "-w", "additive:bit=64", "--id", "x")
    assert "the watermark 'additive' has no option 'bit': its options are bits" in said


def test_a_watermark_may_be_locked_with_another_hash(folder, tmp_path):
    marked, identifier = tmp_path / "marked.png", ("--id", "studio")
    other = ("-w", "additive:bits=64,hash=phash", *identifier)
    [row] = run_json("embed", folder / "a.png", "-o", marked, *other)["results"]
    assert any("'phash' cannot register" in warning for warning in row["warnings"])
    run("verify", marked, *other)
    run("verify", marked, "-w", "additive:bits=64", *identifier, code=1)
    said = complaint("verify", marked, "-w", "additive:hash=nonsense", *identifier)
    assert "no hash 'nonsense'" in said


def test_what_is_wrong_with_a_setting_is_said_once_and_before_the_first_picture(folder, tmp_path):
    text = tmp_path / "key.txt"
    text.write_text("not a key")
    for settings, said in {
        (*LOCK, "--key-file", text): "is not a CoverLock key file",
        ("-w", "additive", "--id", "\udcff"): "characters that are not text",
    }.items():
        for command in ("embed", "verify"):
            assert said in complaint(command, folder, *settings)
    (tmp_path / "ids.txt").write_text("\n".join(map(str, range(1000))))
    identify = ("identify", folder, "-w", "additive", "--ids", tmp_path / "ids.txt")
    assert "among 1,000 candidates" in complaint(*identify, "--fpr", "1e-13")
    (tmp_path / "file").touch()
    said = complaint("embed", folder, *LOCK, "-o", tmp_path / "file" / "below")
    assert "nothing can be written to the folder" in said
    said = complaint("embed", folder / "a.png", *LOCK, "-o", tmp_path / "a.gif")
    assert "cannot be saved as '.gif'" in said


def test_a_bundle_verifies_and_identifies(folder, toy, tmp_path, photos):
    marked = tmp_path / "marked.png"
    Image.fromarray(toy_lock().embed(photos[0], "bob")).save(marked)
    ids = tmp_path / "ids.txt"
    ids.write_text("alice\nbob\n")
    bundle = ("--bundle", toy, "--runtime", "cpu")
    assert run_json("verify", marked, *bundle, "--id", "bob")["counts"]["accepted"] == 1
    answer = run_json("identify", marked, folder / "a.png", *bundle, "--ids", ids, code=1)
    assert [row["label"] for row in answer["results"]] == ["bob", None]
    assert "bob" in run("identify", marked, *bundle, "--ids", ids)
    assert "is not a bundle" in complaint("identify", marked, "--bundle", tmp_path, "--ids", ids)
    strict = complaint("identify", marked, *bundle, "--ids", ids, "--trust", tmp_path / "no.pub")
    assert "no.pub does not exist" in strict
    public = generate_signing_key(tmp_path / "signing.key")
    strict = complaint("identify", marked, *bundle, "--ids", ids, "--trust", public)
    assert "is not signed" in strict


def test_a_rejected_picture_names_no_key(folder, tmp_path):
    key, log, ids = tmp_path / "key.json", tmp_path / "audit.log", folder / "notes.txt"
    generate_key(key, id="launch-2026")
    plugin_manager().add("audit-log", AuditLog(log))
    lock = (*LOCK, "--key-file", key)
    assert "launch-2026" not in run("verify", folder, *lock, code=1)
    answer = run_json("verify", folder, *lock, code=1)
    assert {row["key_id"] for row in answer["results"]} == {None}
    identify = ("identify", folder, "-w", "additive", "--key-file", key, "--ids", ids)
    assert "launch-2026" not in run(*identify, "--json", code=1)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(lines) == 9
    assert {line["key_id"] for line in lines} == {None}


def test_no_signing_key_is_made_for_what_is_not_a_bundle(tmp_path):
    said = complaint("sign", tmp_path, "--key", tmp_path / "release.pem", "--new-key")
    assert "is not a bundle" in said
    assert not list(tmp_path.iterdir())

import json
import os
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context

import pytest
from click.testing import CliRunner

from coverlock_sdk import Verdict
from coverlock_sdk.cli.keys import check_log
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.verifier.audit_log import FIRST, AuditLog, check_chain

VERDICT = Verdict(True, 1e-9, 47, 48, 1e-6, "soft")


def record(path, count: int) -> None:
    log = AuditLog(path)
    for _ in range(count):
        log.verdict_reached(VERDICT, "mark", "octave", "a.png")


def test_each_line_names_the_digest_of_the_one_before(tmp_path):
    path = tmp_path / "log.jsonl"
    record(path, 2)
    record(path, 1)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0]["previous"] == FIRST
    assert len({line["previous"] for line in lines}) == 3
    count, digest = check_chain(path)
    assert count == 3
    answer = CliRunner().invoke(check_log, [str(path), "--json"])
    assert json.loads(answer.output) == {"lines": 3, "last": digest}


@pytest.mark.parametrize("change", ["edit", "remove", "insert", "swap"])
def test_a_log_that_was_changed_is_found_out(tmp_path, change):
    path = tmp_path / "log.jsonl"
    record(path, 4)
    lines = path.read_text().splitlines()
    if change == "edit":
        lines[1] = lines[1].replace('"accepted": true', '"accepted": false')
    elif change == "remove":
        del lines[1]
    elif change == "insert":
        lines.insert(2, lines[1])
    else:
        lines[1], lines[2] = lines[2], lines[1]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(CoverLockError, match="broken at line"):
        check_chain(path)


@pytest.mark.parametrize("change", ["edit the last", "cut off the last", "write anew"])
def test_what_the_chain_does_not_show_a_noted_digest_does(tmp_path, change):
    path = tmp_path / "log.jsonl"
    record(path, 3)
    [_, noted] = check_chain(path)
    record(path, 2)  # a log that only grew still leads there
    line = [str(path), "--expect", noted]
    assert CliRunner().invoke(check_log, line).exit_code == 0
    lines = path.read_bytes().splitlines(keepends=True)[:3]
    path.write_bytes(b"".join(lines))
    assert check_chain(path, noted) == (3, noted)
    if change == "write anew":
        path.unlink()
        record(path, 3)
    else:
        edited = [] if change.startswith("cut") else [lines[2].replace(b"true", b"false")]
        path.write_bytes(b"".join([*lines[:2], *edited]))
    check_chain(path)
    with pytest.raises(CoverLockError, match=f"no line of .* has the digest {noted}"):
        check_chain(path, noted)
    assert isinstance(CliRunner().invoke(check_log, line).exception, CoverLockError)


def test_a_full_disk_leaves_no_half_line(tmp_path):
    resource = pytest.importorskip("resource")
    path = tmp_path / "log.jsonl"
    record(path, 2)
    whole = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 20, hard))  # room for part of a line
    try:
        with pytest.raises(CoverLockError, match="cannot be written .No space left"):
            record(path, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == whole
    record(path, 1)
    assert check_chain(path)[0] == 3


def test_lines_of_any_length_are_chained(tmp_path):
    log = AuditLog(tmp_path / "log.jsonl")
    for length in (10, 65_000, 300_000, 10):
        log.verdict_reached(VERDICT, "mark", None, length * "x")
    assert check_chain(log.path)[0] == 4


def test_threads_and_processes_share_a_log(tmp_path):
    path = tmp_path / "log.jsonl"
    log = AuditLog(path)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(40):
            pool.submit(log.verdict_reached, VERDICT, "mark", None, None)
    children = [get_context("spawn").Process(target=record, args=(path, 20)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert check_chain(path)[0] == 80


def test_a_log_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(CoverLockError, match="cannot be written"):
        AuditLog(tmp_path / "nowhere" / "log.jsonl")
    path = tmp_path / "cut.jsonl"
    path.write_text('{"previous": "')
    with pytest.raises(CoverLockError, match="incomplete"):
        record(path, 1)
    with pytest.raises(CoverLockError, match="not a line"):
        check_chain(path)


def test_looking_whether_a_log_can_be_written_follows_no_link(tmp_path):
    """It overwrote what a link of a name that could be guessed led to."""
    log, victim = AuditLog(tmp_path / "log"), tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f".log.{os.getpid()}.probe").symlink_to(victim)
    log.require_writable()
    assert victim.read_text() == "precious"


def test_a_log_that_is_a_link_is_refused_and_its_target_left_alone(tmp_path):
    victim, link = tmp_path / "victim", tmp_path / "log"
    victim.write_text("precious")
    link.symlink_to(victim)
    with pytest.raises(CoverLockError, match="is a link: name the file"):
        AuditLog(link)
    assert victim.read_text() == "precious"

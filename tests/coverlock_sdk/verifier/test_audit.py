from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context

import pytest
from click.testing import CliRunner

from coverlock_sdk import Verdict
from coverlock_sdk.cli.check_log import check_log
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.verifier.audit import FIRST, AuditLog, check_chain

VERDICT = Verdict(True, 1e-9, 47, 48, 1e-6, "soft")


def record(path, count: int) -> None:
    log = AuditLog(path)
    for _ in range(count):
        log.verdict_reached(VERDICT, "mark", "nano", "a.png")


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
    with pytest.raises(CoverLockError, match="cannot be opened"):
        AuditLog(tmp_path / "nowhere" / "log.jsonl")
    path = tmp_path / "cut.jsonl"
    path.write_text('{"previous": "')
    with pytest.raises(CoverLockError, match="incomplete"):
        record(path, 1)
    with pytest.raises(CoverLockError, match="not a line"):
        check_chain(path)

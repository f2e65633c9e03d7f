"""What scripts rely on: exit codes, strict JSON, and streams that may be closed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_sdk.cli import build_cli
from coverlock_sdk.cli.output import VERDICT_COLUMNS, print_json, report
from coverlock_sdk.images.folders import Found
from tests.conftest import AdditiveMark
from tests.coverlock_sdk.cli.conftest import LOCK, run, run_json

COVERLOCK = (sys.executable, "-m", "coverlock_sdk")


def refuse_constant(name):
    raise AssertionError(f"{name} is not JSON")


def test_json_is_strict(capsys):
    print_json({"psnr": float("inf"), "rows": [(float("nan"), 1.5)], "low": -float("inf")})
    document = json.loads(capsys.readouterr().out, parse_constant=refuse_constant)
    assert document == {"psnr": None, "rows": [[None, 1.5]], "low": None}


def test_a_picture_that_marking_did_not_change_has_no_psnr(folder, monkeypatch):
    monkeypatch.setattr("coverlock_sdk.images.picture.Picture.psnr", lambda *_: float("inf"))
    text = run("embed", folder / "a.png", *LOCK, "--json")
    [row] = json.loads(text, parse_constant=refuse_constant)["results"]
    assert row["psnr"] is None


def test_exit_codes_are_explained():
    for command in ((), ("verify",), ("embed",), ("identify",)):
        shown = " ".join(run(*command, "--help").split())
        assert "Exit codes: 0: success" in shown


def test_the_package_is_a_command():
    shown = subprocess.run([*COVERLOCK, "--help"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("Usage: coverlock ")


@pytest.mark.parametrize("arguments", [("--help",), ("plugins",), ("plugins", "--json")])
def test_a_closed_pipe_is_neither_an_answer_nor_an_error(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [*COVERLOCK, *arguments], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert ended.returncode == 141
    assert ended.stderr == ""


def test_ctrl_c_is_not_a_rejection(folder, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(AdditiveMark, "decode", interrupted)
    for command, said in {
        "verify": "interrupted after 0 of 3 pictures\n",
        "embed": "interrupted after 0 of 3 pictures; run the same command again to go on\n",
    }.items():
        ended = CliRunner().invoke(build_cli(), [command, str(folder), *LOCK])
        assert (ended.exit_code, ended.stdout, ended.stderr) == (130, "", said)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_ends_the_process_without_a_traceback(tmp_path):
    """The process waits for a writer of the list of identifiers, who never comes."""
    os.mkfifo(tmp_path / "ids")
    command = [*COVERLOCK, "identify", tmp_path, "-w", "mbrs", "--ids", tmp_path / "ids"]
    running = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Jobs that a shell runs in the background ignore Ctrl-C, and so would this one.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    with (tmp_path / "ids").open("w"):  # opens as soon as the process reads
        running.send_signal(signal.SIGINT)
        assert running.communicate(timeout=60) == ("", "interrupted\n")
    assert running.returncode == 130


def test_every_error_of_a_batch_names_its_file(folder, photos):
    frames = [Image.fromarray(p) for p in photos[:3]]
    frames[0].save(folder / "moving.gif", save_all=True, append_images=frames[1:])
    Image.fromarray(photos[0][:8, :8]).save(folder / "tiny.png")
    Image.fromarray(photos[0][..., 0].astype(np.float32)).save(folder / "depth.tif")
    shown = run("verify", folder, *LOCK, code=2)
    for name in ("moving.gif", "tiny.png", "depth.tif"):
        [line] = [line for line in shown.splitlines() if line.startswith("error") and name in line]
        assert str(folder / name) in line
    assert "3 rejected, 3 errors" in shown


def test_warnings_of_a_batch_name_their_file(folder, monkeypatch):
    monkeypatch.setattr(AdditiveMark, "strength", 0.0)
    shown = run("embed", folder / "a.png", folder / "b.jpg", *LOCK, code=1)
    for name in ("a.png", "b.jpg"):
        assert f"warning: {folder / name}: the marked picture would not be accepted" in shown


def test_skipped_files_are_counted_and_told(folder):
    assert "skipped 1 file that is not a picture" in run("verify", folder, *LOCK, code=1)
    (folder / "more" / "video.mov").touch()
    (folder / ".DS_Store").touch()
    assert "skipped 2 files that are not pictures" in run("verify", folder, *LOCK, code=1)
    assert run_json("verify", folder, *LOCK, code=1)["skipped"] == 2


def test_files_are_named_from_the_current_folder(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    shown = run("embed", folder, "-o", folder.parent / "out", *LOCK)
    assert str(folder.parent) not in shown
    assert "photos/more/c.png" in shown
    assert "out/more/c.marked.png" in shown
    assert "3 marked" in shown


def test_rejections_that_chance_explains_count_no_bits(folder):
    shown = run("verify", folder, *LOCK, code=1)
    assert "no better than chance (p = " in shown
    assert " bits" not in shown
    assert "check the key, the identifier and the watermark." in shown
    run("embed", folder / "a.png", *LOCK)
    shown = run("verify", folder, *LOCK, code=1)
    assert "of 48 bits, p = " in shown
    assert "another key" not in shown


def test_long_tables_show_the_failures_only(capsys):
    def rows_of(status: str, count: int) -> list[dict]:
        verdict = {"accepted": status == "accepted", "p_value": 0.5, "matches": 24, "bits": 48}
        row = {"status": status, "warnings": [], **verdict}
        return [{"file": f"{number}.{status}", **row} for number in range(count)]

    good, bad = rows_of("accepted", 30), rows_of("rejected", 50)
    for rows, seen, told in (
        (good, 30, "30 accepted"),
        ([*good, *bad[:20]], 20, "30 accepted, 20 rejected"),
        ([*good, *bad], 40, "... and 10 more; --json lists them all"),
    ):
        with pytest.raises(click.exceptions.Exit):
            report(Found([], 0), rows, VERDICT_COLUMNS, as_json=False)
        shown = capsys.readouterr().out
        assert shown.count(".accepted ") + shown.count(".rejected ") == seen
        assert told in shown


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
@pytest.mark.parametrize("arguments", [["plugins"], ["plugins", "--json"], ["--help"]])
def test_a_full_disk_is_one_sentence(arguments):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "coverlock_sdk", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr == "error: the output cannot be written (No space left on device)\n"

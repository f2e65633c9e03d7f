"""What scripts rely on: exit codes, strict JSON, and streams that may be closed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_sdk.cli import build_cli
from coverlock_sdk.cli.output import print_json
from tests.conftest import AdditiveMark
from tests.coverlock_sdk.cli.conftest import LOCK, run

COVERLOCK = (sys.executable, "-m", "coverlock_sdk")


def refuse_constant(name):
    raise AssertionError(f"{name} is not JSON")


def test_json_is_strict(capsys):
    print_json({"psnr": float("inf"), "rows": [(float("nan"), 1.5)], "low": -float("inf")})
    document = json.loads(capsys.readouterr().out, parse_constant=refuse_constant)
    assert document == {"psnr": None, "rows": [[None, 1.5]], "low": None}


def test_exit_codes_are_explained():
    for command in ((), ("verify",), ("embed",), ("identify",)):
        shown = " ".join(run(*command, "--help").split())
        assert "Exit codes: 0: success" in shown


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

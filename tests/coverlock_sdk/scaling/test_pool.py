import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_sdk import Keyring
from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import BundleError
from coverlock_sdk.scaling.job import VerificationJob
from coverlock_sdk.scaling.pool import in_processes
from tests.conftest import wait_until_gone
from tests.coverlock_sdk.scaling.conftest import MARKED, PLAIN
from tests.toy_bundle import toy_lock, write_toy_bundle


def run(*arguments: str):
    result = CliRunner().invoke(build_cli(), ["verify", *arguments, "--id", "alice", "--json"])
    return result.exit_code, json.loads(result.stdout)


def test_one_process_two_processes_and_the_plain_loop_agree(toy, folder):
    code, one = run(str(folder), "--bundle", str(toy), "--runtime", "cpu")
    assert code == 2  # two files could not be read
    assert one["counts"] == {"accepted": MARKED, "rejected": PLAIN, "error": 2}
    _, two = run(str(folder), "--bundle", str(toy), "--runtime", "cpu", "--workers", "2")
    assert two == one

    lock = toy_lock()
    for row in one["results"]:
        if row["status"] != "error":
            assert row["accepted"] == lock.verify(row["file"], "alice").accepted


def test_a_bad_bundle_is_said_once_and_in_one_sentence(tmp_path):
    job = VerificationJob(str(tmp_path), "alice")
    with pytest.raises(BundleError, match="is not a bundle"):
        list(in_processes(job, ["a.png"] * 100, workers=2))


@pytest.mark.skipif(os.name != "posix", reason="kills by signal")
def test_no_process_outlives_a_parent_that_was_killed(toy, folder, tmp_path):
    code = (
        "import os, sys\n"
        "from coverlock_sdk.scaling import pool\n"
        "from coverlock_sdk.scaling.job import VerificationJob\n"
        "if __name__ == '__main__':\n"
        "    with pool._pool(VerificationJob(sys.argv[1], 'alice', runtime='cpu'), 1) as workers:\n"
        "        print(workers.submit(os.getpid).result(), flush=True)\n"
        "        os.kill(os.getpid(), 9)\n"
    )
    script = tmp_path / "parent.py"
    script.write_text(code)
    command = [sys.executable, str(script), str(toy)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    wait_until_gone(int(done.stdout))


class Deadly(VerificationJob):
    """A job whose process dies at one picture: the first time, or each time if it is poisoned."""

    def check(self, worker, items):
        killed = Path(self.bundle).with_name(f"killed-{self.message}")
        deadly = self.message == "poisoned" or not killed.exists()
        if deadly and any(file.endswith("013.png") for file in items):
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().check(worker, items)


@pytest.mark.slow
@pytest.mark.parametrize("message", ["unlucky", "poisoned"])
def test_a_process_that_dies_loses_nothing_and_a_picture_that_kills_is_reported(
    toy, folder, message
):
    files = sorted(str(path) for path in folder.glob("0*.png"))
    job = Deadly(str(toy), message, runtime="cpu", max_batch=4)
    rows = list(in_processes(job, files, workers=2))
    assert toy.with_name(f"killed-{message}").exists()
    assert [row["file"] for row in rows] == files
    errors = [row for row in rows if row["status"] == "error"]
    assert [Path(row["file"]).name for row in errors] == ["013.png"] * (message == "poisoned")
    assert all("died" in row["error"] for row in errors)


def test_keys_travel_as_the_path_of_their_file(tmp_path, photos):
    key_file = tmp_path / "keys.json"
    CliRunner().invoke(build_cli(), ["keygen", str(key_file)])
    keyring = Keyring.load(key_file)
    bundle = write_toy_bundle(tmp_path / "bundle", keyring.keys[0].fingerprint)
    marked = toy_lock(keyring).embed(photos[0], "alice")
    Image.fromarray(marked).save(tmp_path / "marked.png")
    line = [str(tmp_path / "marked.png"), "--bundle", str(bundle.path), "--workers", "2"]
    code, answer = run(*line, "--key-file", str(key_file))
    assert code == 0
    assert answer["results"][0]["key_id"] == keyring.keys[0].id
    refused = CliRunner().invoke(build_cli(), ["verify", *line, "--id", "alice"])
    assert refused.exit_code == 2
    assert "was exported for the key" in refused.output

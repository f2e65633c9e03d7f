import json
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.scaling.job import VerificationJob
from coverlock_sdk.scaling.pool import in_processes
from coverlock_sdk.verifier import runtimes
from tests.coverlock_plugins.ray_cluster.conftest import rows_in
from tests.coverlock_sdk.scaling.conftest import MARKED, PLAIN

pq = pytest.importorskip("pyarrow.parquet", reason="pip install 'coverlock-sdk[ray]'")


pa = pytest.importorskip("pyarrow")


MARKER = f"coverlock-test-{os.getpid()}"


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray", reason="pip install 'coverlock-sdk[ray]'")
    os.environ["COVERLOCK_TEST"] = MARKER  # every process of this cluster can be told by it
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (its own spelling)
    ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def plain(toy, folder):
    files = sorted(str(path) for path in folder.iterdir())
    job = VerificationJob(str(toy), "alice", runtime="cpu")
    return {row["file"]: row for row in in_processes(job, files, workers=1)}


def assert_same(rows: list[dict], plain: dict[str, dict]) -> None:
    assert sorted(row["file"] for row in rows) == sorted(plain)
    for row in rows:
        expected = plain[row["file"]]
        assert (row["status"], row["matches"]) == (expected["status"], expected.get("matches"))
        if row["status"] == "error":
            assert row["error"]
        else:
            assert row["p_value"] == pytest.approx(expected["p_value"], rel=1e-3)


@pytest.mark.slow
def test_a_folder_on_ray_and_in_the_plain_loop_agree(
    cluster, toy, folder, plain, tmp_path, monkeypatch
):
    monkeypatch.chdir(toy.parent)  # where no worker is
    monkeypatch.setattr(runtimes, "RUNTIMES", {})  # the driver may be a small machine
    line = ["ray", f"file://{folder}", "--bundle", toy.name, "--id", "alice"]
    line += ["--runtime", "cpu", "--out", str(tmp_path / "out"), "--json"]
    result = CliRunner().invoke(build_cli(), line)
    assert result.exit_code == 2, result.output
    answer = json.loads(result.stdout)
    assert answer["counts"] == {"accepted": MARKED, "rejected": PLAIN, "error": 2}
    rows = rows_in(tmp_path / "out")
    assert_same([{**row, "file": row["file"].removeprefix("file://")} for row in rows], plain)


@pytest.mark.slow
def test_shards_that_are_done_are_not_done_again(
    cluster, toy, folder, plain, tmp_path, monkeypatch
):
    from coverlock_plugins.ray_cluster.actors import verify_on_ray

    monkeypatch.setattr("coverlock_plugins.ray_cluster.inputs.PICTURES_PER_SHARD", 10)
    job = VerificationJob(str(toy), "alice", runtime="cpu")
    pq.write_table(pa.table({"path": sorted(plain)}), tmp_path / "in.parquet")
    given = [str(tmp_path / "in.parquet")], tmp_path / "out"
    counts = verify_on_ray(job, *given, roots=[str(folder)])
    assert sum(counts.values()) == len(plain)
    files = sorted((tmp_path / "out").glob("part-*.parquet"))
    assert len(files) == 4
    kept = [file.stat().st_mtime_ns for file in files]
    files[1].unlink()
    assert verify_on_ray(job, *given, roots=[str(folder)]) == counts
    again = [file.stat().st_mtime_ns == time for file, time in zip(files, kept, strict=True)]
    assert again == [True, False, True, True]
    assert_same(rows_in(tmp_path / "out"), plain)
    for changed, sources in ((replace(job, message="bob"), given[0]), (job, [str(folder)])):
        with pytest.raises(CoverLockError, match="results of another job"):
            verify_on_ray(changed, sources, tmp_path / "out")


@pytest.mark.slow
def test_a_killed_worker_loses_nothing_and_doubles_nothing(cluster, toy, folder, plain, tmp_path):
    from coverlock_plugins.ray_cluster.actors import verify_on_ray

    killed: list[int] = []
    thread = threading.Thread(target=kill_a_judge, args=(killed,))
    thread.start()
    names = sorted(plain)
    copies = {f"{name}#{copy}": name for copy in range(40) for name in names}
    table = {"file": list(copies), "path": list(copies.values())}
    pq.write_table(pa.table(table), tmp_path / "in.parquet", row_group_size=64)
    job = VerificationJob(str(toy), "alice", runtime="cpu", max_batch=16)
    out, roots = tmp_path / "out", [str(folder)]
    verify_on_ray(job, [str(tmp_path / "in.parquet")], out, roots=roots)
    thread.join()
    assert killed
    rows = rows_in(tmp_path / "out")
    expected = {copy: {**plain[name], "file": copy} for copy, name in copies.items()}
    assert_same(rows, expected)


@pytest.mark.slow
def test_a_shard_that_fails_again_and_again_is_named(cluster, toy, folder, tmp_path, monkeypatch):
    from coverlock_plugins.ray_cluster import actors

    monkeypatch.setattr(actors, "PAUSES", (0, 0.1))
    monkeypatch.setattr(actors._Worker, "judge", lambda self, shard, pause: os._exit(1))
    job = VerificationJob(str(toy), "alice", runtime="cpu")
    with pytest.raises(CoverLockError, match=r"shard 0, which begins with .*, failed 2 times"):
        actors.verify_on_ray(job, [str(folder)], tmp_path / "out")
    assert not list((tmp_path / "out").glob("part-*"))


def kill_a_judge(killed: list[int]) -> None:
    """Kill an actor of this test's cluster as soon as it is at work."""
    deadline = time.monotonic() + 120
    while not killed and time.monotonic() < deadline:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                title = (process / "cmdline").read_bytes()
                mine = f"COVERLOCK_TEST={MARKER}".encode() in (process / "environ").read_bytes()
            except OSError:
                continue
            if mine and title.startswith(b"ray::") and b"_Worker.judge" in title:
                os.kill(int(process.name), signal.SIGKILL)
                killed.append(int(process.name))
                return
        time.sleep(0.005)

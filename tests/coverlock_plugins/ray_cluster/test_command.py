import json
import sys
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from coverlock_plugins.ray_cluster.command import ray
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.bundles.signing import generate_signing_key
from coverlock_sdk.scaling.job import VerificationJob
from tests.toy_bundle import write_toy_bundle


def test_a_cluster_is_told_where_files_are_from_anywhere(tmp_path, monkeypatch):
    pytest.importorskip("cryptography")
    write_toy_bundle(tmp_path / "bundle")
    generate_signing_key(tmp_path / "signing.key")
    Bundle.open(tmp_path / "bundle").sign(tmp_path / "signing.key")
    told: list[VerificationJob] = []

    def verify_on_ray(job, *_):
        told.append(job)
        print("a worker died")  # as Ray does
        return {"accepted": 1, "rejected": 0, "error": 0}

    engine = SimpleNamespace(verify_on_ray=verify_on_ray)
    monkeypatch.setitem(sys.modules, "coverlock_plugins.ray_cluster.actors", engine)
    monkeypatch.chdir(tmp_path)
    line = ["a.png", "--id", "alice", "--out", "out"]
    line += ["--bundle", "bundle", "--trust", "signing.pub"]
    named = CliRunner().invoke(ray, [*line, "--key-file", "key.json"])
    monkeypatch.setenv("COVERLOCK_KEY_FILE", "key.json")
    assert (named.exit_code, CliRunner().invoke(ray, line).exit_code) == (0, 0)
    alone = CliRunner().invoke(ray, [*line, "--json"]).stdout
    assert json.loads(alone)["counts"]["accepted"] == 1
    for job in told:
        found = (job.bundle, *job.trust, job.key_file)
        assert found == tuple(str(tmp_path / n) for n in ("bundle", "signing.pub", "key.json"))

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from coverlock_sdk.hashing.octave import OctaveCode
from tests.toy_bundle import write_toy_bundle

SCRIPT = Path(__file__).parents[2] / "scripts" / "gpu_check.sh"


@pytest.mark.slow
def test_without_a_gpu_all_else_is_checked_and_logs_are_kept(tmp_path, photo_folder):
    pytest.importorskip("cryptography")
    write_toy_bundle(tmp_path / "bundle", embedding=True, image_hash=OctaveCode())
    no_gpu = tmp_path / "bin" / "nvidia-smi"
    no_gpu.parent.mkdir()
    no_gpu.write_text("#!/bin/sh\nexit 9\n")
    no_gpu.chmod(0o755)
    path = f"{no_gpu.parent}:{os.environ['PATH']}"
    result = tmp_path / "gpu.json"
    done = subprocess.run(
        [SCRIPT, tmp_path / "bundle", photo_folder, result],
        env={**os.environ, "PYTHON": sys.executable, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3, done.stdout + done.stderr
    steps = {row["step"]: row for row in json.loads(result.read_text())["figures"]["steps"]}
    assert steps["cpu fp32"]["detail"] == "4 accepted"
    assert steps["cpu fp32 bits"]["detail"].startswith("100.0000% of bits agree")
    for target in ("tensorrt", "tensorrt-rtx"):
        assert steps[f"{target} fp32 bits"]["status"] == "skipped"
    assert "4 accepted" in (tmp_path / "gpu-logs" / "cpu-fp32.log").read_text()

"""The example that shows a transplant with and without the lock."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("c2pa")
pytest.importorskip("torch")

SCRIPT = Path(__file__).parents[2] / "examples" / "content_credentials.py"


@pytest.mark.slow
def test_the_transplant_resolves_without_the_lock_only(photo_folder):
    done = subprocess.run(
        [sys.executable, SCRIPT, photo_folder / "0.png", photo_folder / "1.png"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.partition(":")[2].strip() for line in done.stdout.splitlines()]
    _, genuine, forged, _, locked_genuine, locked_forged = lines
    assert genuine == "order-4711/000001"
    assert forged == "order-4711/000001, which is false"
    assert locked_genuine.startswith("urn:c2pa:")
    assert "is another picture" in locked_forged

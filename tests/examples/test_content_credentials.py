"""The example that shows a transplant with and without the lock."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.coverlock_plugins.content_credentials.certificates import make_certificates

pytest.importorskip("c2pa")
pytest.importorskip("torch")

SCRIPT = Path(__file__).parents[2] / "examples" / "content_credentials.py"


@pytest.mark.slow
def test_the_transplant_resolves_without_the_lock_only(photo_folder, tmp_path):
    certificates = make_certificates(tmp_path)
    done = subprocess.run(
        [sys.executable, SCRIPT, photo_folder / "0.png", photo_folder / "1.png", certificates],
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

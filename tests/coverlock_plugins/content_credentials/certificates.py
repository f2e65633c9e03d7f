"""Certificates as the documentation makes them, by its own commands."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from coverlock_plugins.content_credentials.credentials import Credentials

PAGE = Path(__file__).parents[3] / "docs" / "content-credentials.md"


def make_certificates(parent: Path, name: str = "Trial") -> Path:
    """A folder below ``parent`` with chain.pem, key.pem and root.pem."""
    if shutil.which("openssl") is None:
        pytest.skip("OpenSSL is not installed")
    folder = parent / "certificates"
    folder.mkdir(parents=True)
    for line in PAGE.read_text().replace("\\\n", " ").replace("Trial", name).splitlines():
        if line.startswith("openssl"):
            subprocess.run(shlex.split(line), cwd=parent, check=True, capture_output=True)
    chain = [(folder / part).read_bytes() for part in ("signer.pem", "root.pem")]
    (folder / "chain.pem").write_bytes(b"".join(chain))
    return folder


def credentials_in(folder: Path) -> Credentials:
    return Credentials.load(folder / "chain.pem", folder / "key.pem")

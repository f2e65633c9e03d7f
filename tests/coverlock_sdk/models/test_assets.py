"""Fetching from a package index that can misbehave in every way, on this machine."""

import base64
import hashlib
import io
import tarfile
import threading
import zipfile
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from coverlock_sdk.errors import CorruptModelError, MissingModelError
from coverlock_sdk.models.assets import (
    Asset,
    cache_folder,
    record_digests,
    require_recorded,
)
from coverlock_sdk.plugin_manager import plugin_manager

WHEEL = "tiny_model-1.0-py3-none-any.whl"
CONTENT = b"weights" * 1000
MEMBERS = {
    "tiny/data/model.bin": CONTENT,
    "tiny/__init__.py": b"raise SystemExit('a wheel is never imported')",
}


def make_wheel() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in MEMBERS.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # dated 1980, not now
    return file.getvalue()


def make_tarball() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name in ("package/dist/tiny.wasm", "package/package.json"):
            entry = tarfile.TarInfo(name)
            entry.size = len(name)
            archive.addfile(entry, io.BytesIO(name.encode()))
    return file.getvalue()


TARBALL = make_tarball()  # once, because gzip writes the time


@dataclass
class Index:
    """A Simple index with one project, and what was asked of it."""

    wheel: bytes
    link: str = f"../../files/{WHEEL}#sha256=whatever"
    announced: int | None = None
    address: str = ""
    logins: list[str | None] = field(default_factory=list)


@pytest.fixture
def index(monkeypatch, tmp_path):
    served = Index(make_wheel())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.logins.append(self.headers.get("Authorization"))
            if self.path == "/simple/tiny-model/":
                page = f'<a href="x-0.1.whl">x</a><br/><a href="{served.link}">{WHEEL}</a>'
                self.answer(page.encode())
            elif self.path == f"/files/{WHEEL}":
                self.answer(served.wheel, served.announced)
            elif self.path == "/npm/tiny/-/tiny-1.0.0.tgz":
                self.answer(TARBALL)
            else:
                self.send_error(404)

        def answer(self, content: bytes, announced: int | None = None) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(announced or len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.address = f"127.0.0.1:{server.server_port}/simple"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://{served.address}")
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path / "models"))
    yield served
    server.shutdown()
    server.server_close()


@pytest.fixture
def asset():
    return Asset(
        name="tiny",
        project="tiny-model",
        wheel=WHEEL,
        sha256=hashlib.sha256(make_wheel()).hexdigest(),
        members=("tiny/data/model.bin",),
        description="A tiny model for tests",
    )


def kept() -> list[Path]:
    return list(cache_folder().rglob("*"))


def test_a_fetched_asset_is_found(index, asset):
    folder = asset.fetch()
    assert folder == asset.locate()
    assert [path.name for path in folder.iterdir()] == ["model.bin"]
    assert (folder / "model.bin").read_bytes() == CONTENT
    assert kept() == [folder, folder / "model.bin"]


def test_a_file_that_was_changed_after_it_was_fetched_is_not_used(index, asset):
    """Tampered weights in the cache were used without a word."""
    pinned = replace(asset, kept={"model.bin": hashlib.sha256(CONTENT).hexdigest()})
    file = pinned.fetch() / "model.bin"
    assert pinned.locate() == file.parent
    file.write_bytes(CONTENT[:-1] + b"!")
    with pytest.raises(CorruptModelError, match="model.bin is missing or not .*fetch"):
        pinned.locate()
    file.unlink()
    with pytest.raises(CorruptModelError, match="model.bin is missing"):
        pinned.locate()


def test_files_without_pins_are_checked_against_their_record(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(CONTENT)
    require_recorded(tmp_path, "fetch it again")  # nothing was recorded
    record_digests(tmp_path, "model.safetensors")
    require_recorded(tmp_path, "fetch it again")
    (tmp_path / "model.safetensors").write_bytes(CONTENT + b"!")
    with pytest.raises(CorruptModelError, match="fetch it again"):
        require_recorded(tmp_path, "fetch it again")
    for damage in (b"[]", b"{", b'{"sha256": {"a": 1}}', b"[" * 100_000):
        (tmp_path / "digests.json").write_bytes(damage)
        with pytest.raises(CorruptModelError, match="is damaged"):
            require_recorded(tmp_path, "fetch it again")


def test_every_model_of_ours_is_pinned_by_the_digest_of_what_is_used():
    for name in ("rivagan", "steganogan"):
        assert plugin_manager().get("asset", name).kept


def test_a_failed_conversion_leaves_nothing(index, asset):
    def convert(source: Path, target: Path) -> None:
        (target / "half").write_text("written")
        raise CorruptModelError("not a model")

    with pytest.raises(CorruptModelError, match="not a model"):
        replace(asset, convert=convert).fetch()
    assert kept() == []


def test_a_wheel_with_another_digest_is_refused(index, asset):
    index.wheel += b"!"
    with pytest.raises(CorruptModelError, match="SHA-256 differs"):
        asset.fetch()
    assert kept() == []


def test_an_endless_download_is_stopped(index, asset, monkeypatch):
    monkeypatch.setattr("coverlock_sdk.models.downloads.MAX_BYTES", 500)
    with pytest.raises(MissingModelError, match="does not end after 500 bytes"):
        asset.fetch()
    assert kept() == []


def test_a_connection_that_is_cut_leaves_nothing(index, asset):
    index.announced = len(index.wheel) + 1
    with pytest.raises(MissingModelError, match=r"cannot download .*check the connection"):
        asset.fetch()
    assert kept() == []


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/simple", "nonsense"])
def test_an_unreachable_index_is_one_sentence(index, asset, address, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", address)
    with pytest.raises(MissingModelError, match=f"cannot download {WHEEL} from .*{address}"):
        asset.fetch()
    assert kept() == []


def test_a_login_reaches_the_index_and_no_message(index, asset, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:s%40cret@{index.address}")
    asset.fetch()
    assert index.logins == ["Basic " + base64.b64encode(b"me:s@cret").decode()] * 2
    with pytest.raises(MissingModelError) as refused:
        replace(asset, name="other", project="no-such-project").fetch()
    assert "cret" not in str(refused.value)


def test_a_login_stays_with_the_index(index, asset, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:secret@{index.address}")
    elsewhere = index.address.replace("127.0.0.1", "localhost").removesuffix("/simple")
    index.link = f"http://{elsewhere}/files/{WHEEL}"
    asset.fetch()
    assert index.logins[0] is not None
    assert index.logins[1] is None


def test_a_folder_that_cannot_be_written_is_named(index, asset, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path / "file" / "models"))
    with pytest.raises(MissingModelError, match=r"cannot write to .*COVERLOCK_MODELS"):
        asset.fetch()


@pytest.fixture
def npm_asset(index, monkeypatch):
    registry = f"http://{index.address.removesuffix('/simple')}/npm"
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", registry)
    return Asset(
        name="tiny",
        project="tiny",
        wheel="tiny-1.0.0.tgz",
        sha256=hashlib.sha256(TARBALL).hexdigest(),
        members=("package/dist/tiny.wasm",),
        description="A tiny package for tests",
    )


def test_the_members_of_a_tarball_are_kept_and_nothing_else(npm_asset):
    folder = npm_asset.fetch()
    assert [path.name for path in folder.iterdir()] == ["tiny.wasm"]
    assert (folder / "tiny.wasm").read_text() == "package/dist/tiny.wasm"


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    for name in ("COVERLOCK_MODELS", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert cache_folder() == tmp_path / ".cache" / "coverlock"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "coverlock"
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path / "models"))
    assert cache_folder() == tmp_path / "models"

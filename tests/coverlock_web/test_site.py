"""What ``coverlock web`` writes, and what it refuses to write."""

import base64
import gzip
import hashlib
import html
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from coverlock_sdk import wrap
from coverlock_sdk.errors import BundleError, MissingModelError
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_web.command import web
from coverlock_web.inlining import PAGE
from coverlock_web.runtime import BINARY, MODULE, RUNTIME
from coverlock_web.site import MODULES, write_site
from tests.conftest import AdditiveMark
from tests.toy_bundle import ProjectionHash, toy_lock, write_toy_bundle


def stand_in(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Put something in the place of ONNX Runtime Web, which is not fetched for these tests."""
    (folder / MODULE).write_text("export const none = true;")
    (folder / BINARY).write_bytes(b"\0asm")
    patch.setattr(type(RUNTIME), "locate", lambda asset: folder)


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    stand_in(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A bundle, and the page of it."""
    folder = tmp_path_factory.mktemp("web")
    with pytest.MonkeyPatch.context() as patch:
        stand_in(folder, patch)
        write_site(write_toy_bundle(folder / "bundle"), toy_lock(), folder / "site")
    return folder


@pytest.fixture
def page(folder):
    written = (folder / "site" / "index.html").read_text()
    assert "{{" not in written
    return written


def element(page: str, marker: str) -> str:
    found = re.search(rf"<script[^>]* {marker}>(.*?)</script>", page, re.DOTALL)
    assert found
    return found[1]


def test_the_page_holds_the_very_graph_and_manifest(page, folder):
    settings = json.loads(element(page, 'id="settings"'))
    assert settings["manifest"] == (folder / "bundle" / "manifest.json").read_text()
    graph = gzip.decompress(base64.b64decode(element(page, 'id="graph"')))
    assert graph == (folder / "bundle" / "verify.onnx").read_bytes()


def test_the_page_holds_the_map_and_the_matrices_of_the_hash(tmp_path, runtime):
    bundle = write_toy_bundle(tmp_path / "bundle", image_hash=OctaveCode())
    lock = toy_lock(image_hash=OctaveCode())
    page = write_site(bundle, lock, tmp_path / "site").read_text()
    shapes = json.loads(element(page, 'id="settings"'))["lock"]["matrices"]
    assert shapes == [[16, 192], [16, 320], [16, 512], [192, 235], [320, 474], [512, 1535]]
    numbers = gzip.decompress(base64.b64decode(element(page, 'id="numbers"')))
    assert numbers.endswith(OctaveCode().whitening[2].T.astype("<f4").tobytes())
    assert len(numbers) == 4 * sum(rows * columns for rows, columns in shapes)
    assert "Crops that keep 70 %" in page


def test_nothing_is_loaded_from_elsewhere(page):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert "default-src 'none'" in policy[1].replace("&#x27;", "'")
    assert "connect-src" not in policy[1]
    assert not re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', page)


def test_the_policy_allows_the_inlined_code_and_no_other(page):
    allowed = html.unescape(re.search(r'Policy" content="([^"]*)"', page)[1])
    for tag in ("style", "script"):
        [inlined] = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inlined.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in allowed


def test_every_module_is_inlined_after_those_it_imports():
    assert sorted(MODULES) == sorted(f.name for f in PAGE.glob("*.js") if f.name != "boot.js")
    for number, name in enumerate(MODULES):
        text = (PAGE / name).read_text()
        assert "</script" not in text
        assert set(re.findall(r'from "\./([\w.]+)"', text)) <= set(MODULES[:number])


def test_a_key_never_enters_a_page(tmp_path, runtime, key):
    bundle = write_toy_bundle(tmp_path / "bundle", key_fingerprint=key.fingerprint)
    with pytest.raises(BundleError, match="a page never holds one: verify them with"):
        write_site(bundle, toy_lock(), tmp_path / "site")
    keyless = write_toy_bundle(tmp_path / "keyless")
    with pytest.raises(BundleError, match="a page never holds one"):
        write_site(keyless, toy_lock(key), tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_the_command_writes_the_page(tmp_path, runtime, monkeypatch):
    write_toy_bundle(tmp_path / "bundle")
    monkeypatch.setattr("coverlock_web.command.open_lock", lambda *given, **settings: toy_lock())
    out = tmp_path / "site"
    result = CliRunner().invoke(web, [str(tmp_path / "bundle"), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert f"page: {out / 'index.html'}" in result.output
    assert (out / "index.html").is_file()


def test_what_cannot_be_a_page_is_refused(tmp_path, runtime, monkeypatch):
    bundle = write_toy_bundle(tmp_path / "bundle")
    hosted = replace(bundle, manifest=replace(bundle.manifest, graphs={}))
    changed = wrap(AdditiveMark(32), hash=ProjectionHash())
    for given, lock, complaint in (
        (hosted, toy_lock(), "has no graph 'verify'"),
        (bundle, changed, "another version of 'additive'"),
    ):
        with pytest.raises(BundleError, match=complaint):
            write_site(given, lock, tmp_path / "site")
    monkeypatch.undo()
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path / "nothing"))
    with pytest.raises(MissingModelError, match="coverlock fetch onnxruntime-web"):
        write_site(bundle, toy_lock(), tmp_path / "site")

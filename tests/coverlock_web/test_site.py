"""What ``coverlock web`` writes, and what it refuses to write."""

from __future__ import annotations

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

from coverlock_sdk.errors import BundleError, MissingModelError
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_web.command import web
from coverlock_web.inlining import PAGE
from coverlock_web.runtime import BINARY, MODULE, RUNTIME
from coverlock_web.site import MODULES, rate_text, require_page, write_site
from tests.toy_bundle import toy_lock, write_toy_bundle


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something in the place of ONNX Runtime Web, which is not fetched for these tests."""
    folder = tmp_path / "runtime"
    folder.mkdir()
    (folder / MODULE).write_text("export const none = true;")
    (folder / BINARY).write_bytes(b"\0asm")
    monkeypatch.setattr(type(RUNTIME), "locate", lambda asset: folder)


@pytest.fixture
def page(tmp_path: Path, runtime: None) -> str:
    bundle = write_toy_bundle(tmp_path / "bundle")
    return write_site(bundle, toy_lock(), tmp_path / "site").read_text()


def element(page: str, marker: str) -> str:
    found = re.search(rf"<script[^>]* {marker}>(.*?)</script>", page, re.DOTALL)
    assert found
    return found[1]


def test_the_page_holds_the_very_graph_and_manifest(page: str, tmp_path: Path) -> None:
    settings = json.loads(element(page, 'id="settings"'))
    assert settings["manifest"] == (tmp_path / "bundle" / "manifest.json").read_text()
    graph = gzip.decompress(base64.b64decode(element(page, 'id="graph"')))
    assert graph == (tmp_path / "bundle" / "verify.onnx").read_bytes()


def test_the_page_names_its_watermark_and_rate(page: str) -> None:
    assert "additive with CoverLock" in page
    assert "10⁻⁶" in page
    assert "{{" not in page


def test_the_page_holds_the_map_and_the_matrices_of_the_hash(tmp_path: Path, runtime: None) -> None:
    bundle = write_toy_bundle(tmp_path / "bundle", image_hash=OctaveCode())
    lock = toy_lock(image_hash=OctaveCode())
    page = write_site(bundle, lock, tmp_path / "site").read_text()
    shapes = json.loads(element(page, 'id="settings"'))["lock"]["matrices"]
    assert shapes == [[16, 192], [16, 320], [16, 512], [192, 235], [320, 474], [512, 1535]]
    numbers = gzip.decompress(base64.b64decode(element(page, 'id="numbers"')))
    assert numbers.endswith(OctaveCode().whitening[2].T.astype("<f4").tobytes())
    assert len(numbers) == 4 * sum(rows * columns for rows, columns in shapes)
    assert "Crops that keep 70 %" in page


def test_nothing_is_loaded_from_elsewhere(page: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert "default-src 'none'" in policy[1].replace("&#x27;", "'")
    assert "connect-src" not in policy[1]
    assert not re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', page)


def test_the_policy_allows_the_inlined_code_and_no_other(page: str) -> None:
    allowed = html.unescape(re.search(r'Policy" content="([^"]*)"', page)[1])
    for tag in ("style", "script"):
        [inlined] = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inlined.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in allowed


def test_every_module_is_inlined_after_those_it_imports() -> None:
    assert sorted(MODULES) == sorted(f.name for f in PAGE.glob("*.js") if f.name != "boot.js")
    for number, name in enumerate(MODULES):
        text = (PAGE / name).read_text()
        assert "</script" not in text
        assert set(re.findall(r'from "\./([\w.]+)"', text)) <= set(MODULES[:number])


def test_a_key_never_enters_a_page(tmp_path: Path, runtime: None, key) -> None:
    bundle = write_toy_bundle(tmp_path / "bundle", key_fingerprint=key.fingerprint)
    with pytest.raises(BundleError, match="a page never holds one: verify them with"):
        write_site(bundle, toy_lock(), tmp_path / "site")
    keyless = write_toy_bundle(tmp_path / "keyless")
    with pytest.raises(BundleError, match="a page never holds one"):
        write_site(keyless, toy_lock(key), tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_what_cannot_be_a_page_is_said_before_the_export(runtime: None, key) -> None:
    with pytest.raises(BundleError, match="'additive' is not a network, so no page can decode it"):
        require_page(toy_lock())
    with pytest.raises(BundleError, match="a page never holds one"):
        require_page(toy_lock(key))


def test_a_bundle_that_is_decoded_on_the_host_is_refused(tmp_path: Path, runtime: None) -> None:
    bundle = write_toy_bundle(tmp_path / "bundle")
    hosted = replace(bundle, manifest=replace(bundle.manifest, graphs={}))
    with pytest.raises(BundleError, match="has no graph 'verify'"):
        write_site(hosted, toy_lock(), tmp_path / "site")


def test_a_missing_runtime_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path / "nothing"))
    with pytest.raises(MissingModelError, match="coverlock fetch onnxruntime-web"):
        write_site(write_toy_bundle(tmp_path / "bundle"), toy_lock(), tmp_path / "site")


def test_a_watermark_that_changed_since_the_export_is_refused(
    tmp_path: Path, runtime: None
) -> None:
    from coverlock_sdk import wrap
    from tests.conftest import AdditiveMark
    from tests.toy_bundle import ProjectionHash

    bundle = write_toy_bundle(tmp_path / "bundle")
    with pytest.raises(BundleError, match="another version of 'additive'"):
        write_site(bundle, wrap(AdditiveMark(32), hash=ProjectionHash()), tmp_path / "site")


def test_the_command_writes_the_page(
    tmp_path: Path, runtime: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_toy_bundle(tmp_path / "bundle")
    monkeypatch.setattr("coverlock_web.command.open_lock", lambda *given, **settings: toy_lock())
    out = tmp_path / "site"
    result = CliRunner().invoke(web, [str(tmp_path / "bundle"), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert f"page: {out / 'index.html'}" in result.output
    assert (out / "index.html").is_file()


@pytest.mark.parametrize(
    ("rate", "text"), [(1e-6, "10⁻⁶"), (1e-12, "10⁻¹²"), (0.05, "0.05"), (2e-6, "2e-06")]
)
def test_rates_are_written_as_people_do(rate: float, text: str) -> None:
    assert rate_text(rate) == text

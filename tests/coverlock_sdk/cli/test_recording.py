"""``--audit``: commands and jobs leave the same trail as the service."""

import hashlib
import json

import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_sdk.cli import build_cli
from coverlock_sdk.testing import natural_pictures
from coverlock_sdk.verifier.audit_log import check_chain
from tests.toy_bundle import toy_lock, write_toy_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return write_toy_bundle(tmp_path_factory.mktemp("toy") / "bundle", embedding=True).path


@pytest.fixture(scope="module")
def marked(tmp_path_factory):
    """A file that carries alice's mark."""
    file = tmp_path_factory.mktemp("pictures") / "marked.png"
    [photo] = natural_pictures(1, (144, 176), seed=5)
    Image.fromarray(toy_lock().embed(photo, "alice")).save(file)
    return file


def run(*arguments) -> int:
    line = [*map(str, arguments), "--trust", "any"]
    return CliRunner().invoke(build_cli(), line).exit_code


def lines_of(log) -> list[dict]:
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("more", [(), ("--workers", "1")])
def test_every_verdict_is_a_line_with_identifier_and_digest(bundle, marked, tmp_path, more):
    log = tmp_path / "log.jsonl"
    (tmp_path / "text.jpg").write_text("not a picture")
    files = (marked, tmp_path / "text.jpg")
    settings = ("--bundle", bundle, "--runtime", "cpu", "--audit", log, *more)
    assert run("verify", *files, "--id", "alice", *settings) == 2
    assert run("verify", marked, "--id", "bob", *settings) == 1
    first, second = lines_of(log)
    digest = hashlib.sha256(marked.read_bytes()).hexdigest()
    assert first["source"] == {"file": str(marked), "id": "alice", "sha256": digest}
    assert second["source"]["id"] == "bob"
    assert (first["accepted"], second["accepted"]) == (True, False)
    assert (first["watermark"], first["hash"]) == ("additive", "projection")
    assert first["agreement"] > first["floor"]
    assert check_chain(log)[0] == 2


@pytest.mark.parametrize("more", [(), ("--workers", "1")])
def test_marking_names_the_file_that_was_written(bundle, tmp_path, more):
    log, photo, out = (tmp_path / name for name in ("log.jsonl", "photo.png", "out.png"))
    Image.fromarray(natural_pictures(1, (144, 176), seed=7)[0]).save(photo)
    settings = ("--bundle", bundle, "--audit", log, *more)
    assert run("embed", photo, "-o", out, "--id", "alice", *settings) == 0
    [line] = lines_of(log)
    digest = hashlib.sha256(out.read_bytes()).hexdigest()
    source = {"file": str(photo), "id": "alice", "sha256": digest, "out": str(out)}
    assert line["source"] == source
    assert line["accepted"]


def test_a_log_that_cannot_be_written_stops_before_the_first_picture(bundle, tmp_path):
    photo, out = tmp_path / "photo.png", tmp_path / "out.png"
    Image.fromarray(natural_pictures(1, (144, 176), seed=7)[0]).save(photo)
    log = tmp_path / "nowhere" / "log.jsonl"
    assert run("embed", photo, "-o", out, "--id", "a", "--bundle", bundle, "--audit", log) == 2
    assert not out.exists()

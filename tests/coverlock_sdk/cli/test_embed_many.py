"""``coverlock embed`` in production: bundles, processes, formats, and files that exist."""

import json
import os

import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_sdk.cli import build_cli
from coverlock_sdk.locking.keys import generate_key
from coverlock_sdk.locking.registry import Registry
from tests.toy_bundle import toy_lock, write_toy_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return write_toy_bundle(tmp_path_factory.mktemp("toy") / "bundle", embedding=True).path


@pytest.fixture
def folder(tmp_path, photos):
    folder = tmp_path / "photos"
    folder.mkdir()
    Image.fromarray(photos[0]).save(folder / "a.png")
    Image.fromarray(photos[1]).save(folder / "b.jpg", quality=95)
    return folder


def embed(bundle, folder, out, *options, identifier="alice"):
    line = ["embed", str(folder), "-o", str(out), "--bundle", str(bundle), "--id", identifier]
    result = CliRunner().invoke(build_cli(), [*line, "--json", *options])
    return result.exit_code, json.loads(result.stdout) if result.stdout else result.stderr


def test_a_bundle_marks_and_formats_are_kept(bundle, folder, tmp_path):
    code, answer = embed(bundle, folder, tmp_path / "out", "--format", "keep")
    assert code == 0, answer
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"a.marked.png", "b.marked.jpg"}
    assert toy_lock().verify(tmp_path / "out" / "b.marked.jpg", "alice")


def test_another_message_is_never_replaced(bundle, folder, tmp_path):
    assert embed(bundle, folder, tmp_path / "out")[0] == 0
    before = (tmp_path / "out" / "a.marked.png").read_bytes()
    code, answer = embed(bundle, folder, tmp_path / "out", identifier="bob")
    assert code == 2
    assert answer["counts"]["error"] == 2
    assert "does not carry this message" in answer["results"][0]["error"]
    assert (tmp_path / "out" / "a.marked.png").read_bytes() == before


def test_the_same_command_goes_on_and_marks_what_changed_since(bundle, folder, tmp_path):
    assert embed(bundle, folder / "a.png", tmp_path / "out")[0] == 0
    code, answer = embed(bundle, folder, tmp_path / "out")
    assert code == 0
    assert [row.get("done") for row in answer["results"]] == ["before", None]
    later = (tmp_path / "out" / "b.marked.png").stat().st_mtime + 5
    os.utime(folder / "b.jpg", (later, later))
    code, answer = embed(bundle, folder, tmp_path / "out")
    assert [row.get("done") for row in answer["results"]] == ["before", None]


@pytest.fixture
def registry(tmp_path):
    """Options of a registry, and of the key that it needs."""
    generate_key(tmp_path / "key.json")
    return ["--registry", str(tmp_path / "registry.db"), "--key-file", str(tmp_path / "key.json")]


def test_what_was_marked_before_keeps_its_serial_and_what_was_not_gets_a_new_one(
    bundle, folder, tmp_path, registry
):
    first = embed(bundle, folder, tmp_path / "out", *registry)[1]
    assert [row["serial"] for row in first["results"]] == ["alice/000001", "alice/000002"]
    (tmp_path / "out" / "a.marked.png").unlink()
    again = embed(bundle, folder, tmp_path / "out", *registry)[1]
    assert [row["serial"] for row in again["results"]] == ["alice/000003", "alice/000002"]
    assert [row.get("done") for row in again["results"]] == [None, "before"]
    later = (tmp_path / "out" / "a.marked.png").stat().st_mtime + 5
    os.utime(folder / "a.png", (later, later))  # another picture may be in that file by now
    code, changed = embed(bundle, folder, tmp_path / "out", *registry)
    assert (code, changed["counts"]["error"]) == (2, 1)


def test_processes_mark_the_same(bundle, folder, tmp_path, registry):
    one = embed(bundle, folder, tmp_path / "one")[1]
    two = embed(bundle, folder, tmp_path / "two", "--workers", "2")[1]
    assert [row["psnr"] for row in one["results"]] == [row["psnr"] for row in two["results"]]
    for name in ("a.marked.png", "b.marked.png"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    known = embed(bundle, folder, tmp_path / "three", "--workers", "2", *registry)[1]
    assert [row["serial"] for row in known["results"]] == ["alice/000001", "alice/000002"]
    assert len(Registry(tmp_path / "registry.db").names()) == 2

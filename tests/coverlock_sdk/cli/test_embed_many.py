"""``coverlock embed`` in production: bundles, processes, formats, and files that exist."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_sdk.cli import build_cli
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
    result = CliRunner().invoke(build_cli(), [*line, "--no-harden", "--json", *options])
    return result.exit_code, json.loads(result.stdout) if result.stdout else result.stderr


def test_a_bundle_marks_and_formats_are_kept(bundle, folder, tmp_path):
    code, answer = embed(bundle, folder, tmp_path / "out", "--format", "keep", "--quality", "90")
    assert code == 2  # a PNG has no quality
    code, answer = embed(bundle, folder, tmp_path / "out", "--format", "keep")
    assert code == 0, answer
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"a.marked.png", "b.marked.jpg"}
    assert toy_lock().verify(tmp_path / "out" / "b.marked.jpg", "alice")


def test_another_message_is_never_replaced_unasked(bundle, folder, tmp_path):
    assert embed(bundle, folder, tmp_path / "out")[0] == 0
    before = (tmp_path / "out" / "a.marked.png").read_bytes()
    code, answer = embed(bundle, folder, tmp_path / "out", identifier="bob")
    assert code == 2
    assert answer["counts"]["error"] == 2
    assert "does not carry this message" in answer["results"][0]["error"]
    assert (tmp_path / "out" / "a.marked.png").read_bytes() == before
    assert embed(bundle, folder, tmp_path / "out", "--overwrite", identifier="bob")[0] == 0
    assert toy_lock().verify(tmp_path / "out" / "a.marked.png", "bob")


def test_a_run_is_resumed(bundle, folder, tmp_path):
    assert embed(bundle, folder / "a.png", tmp_path / "out")[0] == 0
    code, answer = embed(bundle, folder, tmp_path / "out", "--resume")
    assert code == 0
    assert [row.get("done") for row in answer["results"]] == ["before", None]


def test_a_resumed_run_goes_on_with_its_serials(bundle, folder, tmp_path):
    serials = ["--serials", str(tmp_path / "serials.db")]
    first = embed(bundle, folder, tmp_path / "out", *serials)[1]
    (tmp_path / "out" / "a.marked.png").unlink()
    again = embed(bundle, folder, tmp_path / "out", *serials, "--resume")[1]
    numbers = [[row["serial"] for row in answer["results"]] for answer in (first, again)]
    assert numbers[0] == numbers[1]
    assert [row.get("done") for row in again["results"]] == [None, "before"]


def test_processes_mark_the_same(bundle, folder, tmp_path):
    Image.open(folder / "a.png").point(lambda level: max(level, 2)).save(folder / "c.png")
    crowd = ["--crowd", str(tmp_path / "pictures.crowd")]
    one = embed(bundle, folder, tmp_path / "one", "--threads", "1")[1]
    two = embed(bundle, folder, tmp_path / "two", "--workers", "2", *crowd)[1]
    for told in ("psnr", "lookalikes"):
        assert [row[told] for row in one["results"]] == [row[told] for row in two["results"]]
    assert [round(row["lookalikes"]["own"]) for row in two["results"]] == [1, 0, 1]
    assert embed(bundle, folder / "c.png", tmp_path / "c", *crowd)[1]["results"][0]["warnings"]
    for name in ("a.marked.png", "b.marked.png"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_one_of_bundle_and_watermark(bundle, folder, tmp_path):
    line = ["embed", str(folder), "--id", "alice"]
    for options in ([], ["--bundle", str(bundle), "-w", "mbrs"]):
        assert CliRunner().invoke(build_cli(), [*line, *options]).exit_code == 2
    result = CliRunner().invoke(build_cli(), [*line, "-w", "mbrs", "--threads", "2"])
    assert result.exit_code == 2
    assert "without --bundle" in result.stderr

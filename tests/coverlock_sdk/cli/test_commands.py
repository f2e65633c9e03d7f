import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_sdk import hookimpl
from coverlock_sdk.cli import build_cli
from coverlock_sdk.images.folders import is_held_out
from coverlock_sdk.locking.keys import Keyring
from coverlock_sdk.plugin_manager import Plugin, plugin_manager
from tests.coverlock_sdk.cli.conftest import LOCK, run, run_json


def test_a_folder_is_marked_verified_and_identified(folder, tmp_path):
    out = tmp_path / "marked"
    report = run_json("embed", folder, "-o", out, *LOCK)
    assert report["counts"] == {"accepted": 3, "rejected": 0, "error": 0}
    assert (out / "more" / "c.marked.png").exists()
    assert run_json("verify", out, *LOCK)["counts"]["accepted"] == 3
    run("verify", folder, *LOCK, code=1)
    (tmp_path / "ids.txt").write_text("alice\n\nstudio\nbob\n")
    found = run_json("identify", out, "-w", "additive", "--ids", tmp_path / "ids.txt")
    assert {row["label"] for row in found["results"]} == {"studio"}


@pytest.mark.parametrize("below", [None, "marked"])
def test_marking_a_folder_again_leaves_the_marked_pictures_alone(folder, below):
    out = ("-o", folder / below) if below else ()
    for _ in range(2):
        assert run_json("embed", folder, *out, *LOCK)["counts"]["accepted"] == 3
    assert not list(folder.rglob("*.marked.marked.png"))


def test_one_bad_file_never_stops_a_batch(folder, tmp_path):
    (folder / "broken.png").write_bytes(b"\x89PNG nonsense")
    (folder / "empty.jpg").touch()
    report = run_json("embed", folder, "-o", tmp_path / "marked", *LOCK, code=2)
    assert report["counts"] == {"accepted": 3, "rejected": 0, "error": 2}
    errors = [row["error"] for row in report["results"] if row["status"] == "error"]
    assert all("\n" not in error for error in errors)
    assert len(list((tmp_path / "marked").rglob("*.*"))) == 3


def test_keys_lock_others_out_and_rotate(folder, tmp_path, monkeypatch):
    key, other = tmp_path / "key.json", tmp_path / "other.json"
    assert "fingerprint" in run("keygen", key, "--id", "first")
    run("keygen", other)
    run("embed", folder / "a.png", *LOCK, "--key-file", key)
    marked = folder / "a.marked.png"
    run("verify", marked, *LOCK, "--key-file", key)
    run("verify", marked, *LOCK, "--key-file", other, code=1)
    run("verify", marked, *LOCK, code=1)
    monkeypatch.setenv("COVERLOCK_KEY_FILE", str(key))
    run("verify", marked, *LOCK)
    assert run_json("keygen", key, "--id", "second", "--rotate")["id"] == "second"
    assert [k.id for k in Keyring.load(key).keys] == ["second", "first"]
    [row] = run_json("verify", marked, *LOCK)["results"]
    assert row["key_id"] == "first"
    run("keygen", key, code=2)


USAGE = {
    "unknown watermark": (
        ("verify", "{a}", "-w", "additve", "--id", "x"),
        "did you mean 'additive'",
    ),
    "no message": (("verify", "{a}", "-w", "additive"), "Missing option '--id'"),
    "empty message": (("verify", "{a}", "-w", "additive", "--id", ""), "the identifier is empty"),
    "unknown option": (("verify", "{a}", "--idd", "x"), "(see 'coverlock verify --help')"),
    "unknown command": (("verfy", "{a}"), "(see 'coverlock --help')"),
    "missing key": (("verify", "{a}", *LOCK, "--key-file", "no.json"), "no key file"),
    "no pictures": (("verify", "{empty}", *LOCK), "contains no pictures"),
    "no match": (("verify", "{empty}/*.png", *LOCK), "no file matches"),
    "missing ids": (("identify", "{a}", "-w", "additive", "--ids", "no.txt"), "does not exist"),
    "impossible rate": (("verify", "{a}", *LOCK, "--fpr", "1e-40"), "cannot reach"),
    "missing registry": (("verify", "{a}", *LOCK, "--registry", "no.db"), "there is no registry"),
    "nothing to identify": (("identify", "{a}", "-w", "additive"), "with --ids, or a registry"),
    "unknown asset": (("fetch", "steganogann"), "did you mean 'steganogan'"),
}


@pytest.mark.parametrize("case", USAGE)
def test_wrong_usage_is_one_sentence_and_code_2(case, folder, tmp_path):
    arguments, expected = USAGE[case]
    (tmp_path / "empty").mkdir()
    arguments = [a.format(a=folder / "a.png", empty=tmp_path / "empty") for a in arguments]
    result = CliRunner().invoke(build_cli(), arguments)
    assert result.exit_code == 2
    assert expected in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    as_json = CliRunner().invoke(build_cli(), [*arguments, "--json"])
    assert expected in json.loads(as_json.stdout)["error"]


def test_plugins_says_what_works_here_and_what_the_others_need(monkeypatch, tmp_path):
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    broken = Plugin("acme", "acme-marks 2.0", failure="ImportError: no acme")
    plugin_manager().plugins.append(broken)
    lines = run("plugins").splitlines()
    assert next(line for line in lines if line.startswith("additive")).rstrip().endswith("yes")
    assert "coverlock fetch steganogan" in next(line for line in lines if "steganogan" in line)
    assert lines[-1] == "skipped plugin 'acme' (acme-marks 2.0): ImportError: no acme"
    document = run_json("plugins")
    assert document["plugins"][-1]["failure"] == "ImportError: no acme"
    missing = {offer["name"]: offer["missing"] for offer in document["offers"]}
    limits = {offer["name"]: offer["limits"] for offer in document["offers"]}
    assert missing["octave"] is limits["octave"] is None
    assert missing["hidden"] or "cannot mark grey pictures" in limits["hidden"]
    assert "coverlock fetch dinov2-s" in missing["dinov2-s"]
    assert "coverlock train hash" in missing["dinov2-b"]


def test_no_command_has_more_options_than_a_reader_can_keep_in_mind():
    def commands(group, context):
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            yield from commands(command, context) if hasattr(command, "commands") else [command]

    for command in commands(cli := build_cli(), click.Context(cli)):
        options = [each for each in command.params if isinstance(each, click.Option)]
        assert len(options) <= 12, command.name


def test_calibration_leaves_the_held_out_photos_alone(tmp_path, photos):
    names = [f"{number:03}" for number in range(60)]
    held_out = [name for name in names if is_held_out(Path(name))]
    fitted_on = [name for name in names if name not in held_out][:2]
    for name in (*held_out[:3], *fitted_on):
        Image.fromarray(photos[0]).save(tmp_path / f"{name}.png")
    assert run_json("calibrate", "additive", "--images", tmp_path)["photos"] == 2
    assert "Calibration(scale=" in run("calibrate", "additive", "--images", tmp_path)
    for name in fitted_on:
        (tmp_path / f"{name}.png").unlink()
    result = CliRunner().invoke(build_cli(), ["calibrate", "additive", "--images", str(tmp_path)])
    assert result.exit_code == 2
    assert "held out for validation" in result.stderr


def test_the_demo_runs_on_a_folder_of_photos(folder, tmp_path):
    out = tmp_path / "demo.png"
    report = run_json("demo", "--images", folder, "-w", "additive", "-o", out)
    assert report["defenses"]["none"]["forgeries_accepted"] == 6
    assert report["defenses"]["coverlock"]["forgeries_accepted"] == 0
    assert Image.open(out).width > 1000


def test_what_can_be_fetched_is_listed(monkeypatch, tmp_path):
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    rows = run_json("fetch")
    assert {"steganogan", "rivagan", "photos"} <= {row["name"] for row in rows}
    assert not any(row["present"] for row in rows)
    assert "steganogan" in run("fetch")


def test_a_checkpoint_is_imported_by_the_plugin_that_knows_it(tmp_path):
    class Importer:
        @hookimpl
        def register_importers(self, register):
            register(lambda file: file.with_suffix(".safetensors"), "known")

    plugin_manager().add("importer", Importer())
    (tmp_path / "weights.pth").touch()
    assert "weights.safetensors" in run("import", "known", tmp_path / "weights.pth")
    (tmp_path / "more.pth").touch()
    answer = run_json("import", "known", tmp_path / "weights.pth", tmp_path / "more.pth")
    assert answer["name"] == "known"
    assert answer["written"] == [str(tmp_path / f"{n}.safetensors") for n in ("weights", "more")]
    run("import", "unknown", tmp_path / "weights.pth", code=2)

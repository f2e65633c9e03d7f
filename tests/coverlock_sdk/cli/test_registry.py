"""``--registry``: pictures are numbered and remembered, and others do not pass for them."""

import pytest

from tests.coverlock_sdk.cli.conftest import LOCK, complaint, run, run_json


@pytest.fixture
def registry(tmp_path):
    run("keygen", tmp_path / "key.json")
    return ("--registry", tmp_path / "registry.db", "--key-file", tmp_path / "key.json")


@pytest.fixture
def marked(folder, tmp_path, registry):
    """Pictures that were marked with serials of one identifier."""
    report = run_json("embed", folder, "-o", tmp_path / "marked", *LOCK, *registry)
    assert [row["serial"] for row in report["results"]] == [f"studio/{n:06}" for n in (1, 2, 3)]
    return [row["out"] for row in report["results"]]


def test_a_marked_picture_is_found_by_identifier_by_serial_and_without_a_name(marked, registry):
    found = run_json("verify", *marked, *LOCK, *registry)
    assert [row["label"] for row in found["results"]] == [f"studio/{n:06}" for n in (1, 2, 3)]
    serial = ("-w", "additive", "--id", "studio/000002")
    [row] = run_json("verify", marked[1], *serial, *registry)["results"]
    assert row["likeness"] > 0.9
    run("verify", marked[0], *serial, *registry, code=1)
    found = run_json("identify", *marked, "-w", "additive", *registry)
    assert [row["label"] for row in found["results"]] == [f"studio/{n:06}" for n in (1, 2, 3)]


def test_what_the_registry_does_not_remember_is_rejected(folder, tmp_path, marked, registry):
    plain = tmp_path / "plain.png"
    run("embed", folder / "a.png", "-o", plain, *LOCK, *registry[2:])
    run("verify", plain, *LOCK, *registry[2:])
    run("verify", plain, *LOCK, *registry, code=1)
    (tmp_path / "ids.txt").write_text("studio\n")
    ids = ("-w", "additive", "--ids", tmp_path / "ids.txt")
    run("identify", plain, *ids, *registry[2:])
    assert "the registry has no such picture" in run("identify", plain, *ids, *registry, code=1)
    said = complaint("verify", plain, "-w", "additive", "--id", "nobody", *registry)
    assert "remembers no pictures marked as 'nobody'" in said


def test_a_picture_that_was_marked_before_is_told(folder, marked, registry):
    again = ("embed", folder / "a.png", *LOCK, *registry, "-o")
    shown = run(*again, folder / "again.png")
    assert "much like one that was marked as 'studio/000001'" in shown
    [row] = run_json("embed", folder / "a.png", "-o", folder / "third.png", *LOCK, *registry)[
        "results"
    ]
    assert row["alike"].startswith("studio/")


def test_processes_look_for_one_serial(toy, marked, registry):
    bundle = ("verify", *marked, "--bundle", toy, "--workers", "1", *registry)
    assert "stands for 3 serials" in complaint(*bundle, "--id", "studio")

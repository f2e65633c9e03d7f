"""Evidence: the commands of its parts, and what it refuses."""

import json
import shlex
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from coverlock_sdk.cli import build_cli
from experiments import evidence
from experiments.__main__ import studies


@pytest.mark.parametrize("part", evidence.PARTS, ids=lambda part: part.name)
def test_every_part_is_a_command_that_takes_its_options(part, tmp_path):
    for folder in ("eval/coco", "train/coco", "train/imagenette"):
        (tmp_path / folder).mkdir(parents=True)
    line = part.line(tmp_path, tmp_path)
    module, *words = part.arguments(line, tmp_path / "out.json")[2:]
    parse({"experiments": studies, "coverlock_sdk": build_cli()}[module], words)


def parse(command: click.Command, words: list[str]) -> None:
    """Read the words of a command, and of the one below it, without running either."""
    context = command.make_context(command.name, list(words))
    if isinstance(command, click.Group):
        _, below, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        parse(below, rest)


@pytest.fixture
def results(monkeypatch, tmp_path):
    """A folder for the results of two parts."""
    folder = tmp_path / "results"
    folder.mkdir()
    parts = (evidence.Part("one", "python -m experiments a"), evidence.Part("two", "coverlock b"))
    monkeypatch.setattr(evidence, "PARTS", parts)
    monkeypatch.setattr(evidence, "RESULTS", folder)
    monkeypatch.setattr(evidence, "CODE", ("LICENSE",))
    return folder


def published(results: Path, revision: str | None) -> None:
    for name in ("one", "two"):
        (results / f"{name}.json").write_text(json.dumps({"revision": revision}))


def test_uncommitted_code_is_refused(monkeypatch, results, tmp_path):
    monkeypatch.setattr(evidence, "_changed", lambda since: ["LICENSE"])
    done = CliRunner().invoke(evidence.evidence, ["--data", str(tmp_path)])
    assert "commit your changes first: LICENSE" in str(done.exception)


def test_a_finished_part_is_published_and_not_made_again(monkeypatch, results, tmp_path):
    """The second part fails once; the first stays."""
    ran: list[str] = []
    run = evidence.subprocess.run

    def fake(arguments, **options):
        if arguments[0] == "git":
            return run(arguments, **options)
        ran.append(shlex.join(arguments[2:4]))
        Path(arguments[-1]).write_text('{"revision": "HEAD"}')
        return subprocess.CompletedProcess(arguments, returncode=int(len(ran) == 2))

    monkeypatch.setattr(evidence.subprocess, "run", fake)
    given = ["--data", str(tmp_path), "--work", str(tmp_path / "work")]
    assert CliRunner().invoke(evidence.evidence, given).exit_code
    assert [path.name for path in results.iterdir()] == ["one.json"]
    assert CliRunner().invoke(evidence.evidence, given).exit_code == 0
    assert ran == ["experiments a", "coverlock_sdk b", "coverlock_sdk b"]
    assert CliRunner().invoke(evidence.evidence, ["--check"]).exit_code == 0


@pytest.mark.parametrize(
    ("revision", "sentence"),
    [
        (None, "one.json is not of a clean revision"),
        ("HEAD-dirty", "one.json is not of a clean revision"),
        ("0123456789ab", "0123456789ab of one.json is not in this history"),
    ],
)
def test_files_that_are_not_of_a_clean_revision_are_named(results, revision, sentence):
    missing = CliRunner().invoke(evidence.evidence, ["--check"])
    assert "one.json is missing: run 'python -m experiments" in str(missing.exception)
    published(results, revision)
    done = CliRunner().invoke(evidence.evidence, ["--check"])
    assert sentence in str(done.exception)


def test_a_file_older_than_the_code_is_named(monkeypatch, results):
    published(results, "HEAD~1")
    monkeypatch.setattr(evidence, "CODE", ())
    done = CliRunner().invoke(evidence.evidence, ["--check"])
    assert "has changed since one.json was made" in str(done.exception)

"""Evidence: the commands of its parts, and what it refuses."""

import json
import shlex
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from coverlock_bench.results import CHECKOUT, code
from coverlock_sdk.cli import build_cli
from experiments import evidence
from experiments.__main__ import studies


@pytest.mark.parametrize("part", evidence.PARTS, ids=lambda part: part.name)
def test_every_part_is_a_command_that_takes_its_options(part, tmp_path):
    for folder in ("eval/coco", "train/coco", "train/imagenette", "speed/bundle"):
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
def results(monkeypatch, tmp_path, checkout):
    """A folder for the results of two parts."""
    folder = tmp_path / "results"
    folder.mkdir()
    parts = (evidence.Part("one", "python -m experiments a"), evidence.Part("two", "coverlock b"))
    monkeypatch.setattr(evidence, "PARTS", parts)
    monkeypatch.setattr(evidence, "RESULTS", folder)
    monkeypatch.setattr(evidence, "CHECKOUT", checkout)
    return folder


@pytest.fixture
def checkout(tmp_path):
    """A repository with one commit of a package, its weights and another package."""
    folder = tmp_path / "checkout"
    for name in evidence.FOLDERS:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text('"""A package."""\nSIZE = 1\n')
    (folder / "plugins" / "weights").mkdir()
    (folder / "plugins" / "weights" / "network.safetensors").write_text("1")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all")
    return folder


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True)


RAN = ["plugins/__init__.py"]


def published(results: Path, revision: str | None, code: list[str] = RAN) -> None:
    for name in ("one", "two"):
        (results / f"{name}.json").write_text(json.dumps({"revision": revision, "code": code}))


def checked() -> str:
    """What ``--check`` complains of; empty if nothing."""
    done = CliRunner().invoke(evidence.evidence, ["--check"])
    return str(done.exception or "")


def test_uncommitted_code_is_refused(results, checkout, tmp_path):
    (checkout / "web" / "__init__.py").write_text("")
    done = CliRunner().invoke(evidence.evidence, ["--data", str(tmp_path)])
    assert "commit your changes first: web/__init__.py" in str(done.exception)


def test_a_finished_part_is_published_and_not_made_again(monkeypatch, results, tmp_path):
    """The second part fails once; the first stays."""
    ran: list[str] = []
    run = evidence.subprocess.run

    def fake(arguments, **options):
        if arguments[0] == "git":
            return run(arguments, **options)
        ran.append(shlex.join(arguments[2:4]))
        made = {"revision": "HEAD", "code": RAN}
        Path(arguments[-1]).write_text(json.dumps(made))
        return subprocess.CompletedProcess(arguments, returncode=int(len(ran) == 2))

    monkeypatch.setattr(evidence.subprocess, "run", fake)
    given = ["--data", str(tmp_path), "--work", str(tmp_path / "work")]
    assert CliRunner().invoke(evidence.evidence, given).exit_code
    assert [path.name for path in results.iterdir()] == ["one.json"]
    assert CliRunner().invoke(evidence.evidence, given).exit_code == 0
    assert ran == ["experiments a", "coverlock_sdk b", "coverlock_sdk b"]
    assert checked() == ""


@pytest.mark.parametrize(
    ("revision", "code", "sentence"),
    [
        (None, RAN, "one.json is not of a clean revision"),
        ("HEAD-dirty", RAN, "one.json is not of a clean revision"),
        ("HEAD", [], "one.json does not say which code made it"),
        ("0123456789ab", RAN, "0123456789ab of one.json is not in this history"),
    ],
)
def test_files_that_are_not_of_a_clean_revision_are_named(results, revision, code, sentence):
    assert "one.json is missing: run 'python -m experiments" in checked()
    published(results, revision, code)
    assert sentence in checked()


@pytest.mark.parametrize(
    ("file", "text", "stale"),
    [
        ("plugins/__init__.py", "SIZE = 2\n", True),
        ("plugins/__init__.py", '"""Other words."""\nSIZE = 1  # a comment\n', False),
        ("plugins/weights/network.safetensors", "2", True),
        ("web/__init__.py", "SIZE = 2\n", False),
    ],
)
def test_a_file_is_stale_once_the_code_that_made_it_changes(results, checkout, file, text, stale):
    published(results, "HEAD")
    assert checked() == ""
    (checkout / file).write_text(text)
    assert (f"{file} has changed since one.json was made" in checked()) == stale


def test_a_result_names_the_code_that_ran():
    assert "bench/coverlock_bench/results.py" in code()
    assert not [file for file in code() if not (CHECKOUT / file).exists()]

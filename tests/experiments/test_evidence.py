"""Evidence: the commands of its parts, and what it refuses."""

import json
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import CoverLockError
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


def test_a_changed_checkout_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(evidence, "revision", lambda: "0123456789ab-dirty")
    done = CliRunner().invoke(evidence.evidence, ["--data", str(tmp_path)])
    assert done.exit_code
    assert "clean checkout" in str(done.exception or done.output)


def test_nothing_is_published_before_every_part_is_made(monkeypatch, tmp_path):
    """The second part fails; the first is kept, and not made again."""
    parts = (evidence.Part("one", "python -m experiments a"), evidence.Part("two", "coverlock b"))
    ran: list[str] = []

    class Run:
        def __init__(self, arguments, **_):
            ran.append(shlex.join(arguments[2:4]))
            self.returncode = int(len(ran) == 2)
            Path(arguments[-1]).write_text("{}")

    results = tmp_path / "results"
    results.mkdir()
    monkeypatch.setattr(evidence, "revision", lambda: "0123456789ab")
    monkeypatch.setattr(evidence, "PARTS", parts)
    monkeypatch.setattr(evidence, "RESULTS", results)
    monkeypatch.setattr(evidence.subprocess, "run", Run)
    given = ["--data", str(tmp_path), "--work", str(tmp_path / "work")]
    assert CliRunner().invoke(evidence.evidence, given).exit_code
    assert not list(results.iterdir())
    assert CliRunner().invoke(evidence.evidence, given).exit_code == 0
    assert sorted(path.name for path in results.iterdir()) == ["one.json", "two.json"]
    assert ran == ["experiments a", "coverlock_sdk b", "coverlock_sdk b"]


@pytest.fixture
def published(monkeypatch, tmp_path):
    """Result files of two parts, of whatever revisions."""
    monkeypatch.setattr(evidence, "PARTS", (evidence.Part("one", ""), evidence.Part("two", "")))
    monkeypatch.setattr(evidence, "RESULTS", tmp_path)

    def publish(*revisions: str) -> None:
        for name, revision in zip(("one", "two"), revisions, strict=False):
            (tmp_path / f"{name}.json").write_text(json.dumps({"revision": revision}))

    return publish


@pytest.mark.parametrize(
    ("revisions", "sentence"),
    [
        (["HEAD"], "two.json is missing"),
        (["HEAD", "HEAD~1"], "not of one clean revision"),
        (["HEAD-dirty", "HEAD-dirty"], "not of one clean revision"),
        (["0123456789ab", "0123456789ab"], "not in this history"),
    ],
)
def test_files_that_are_not_of_one_clean_revision_are_named(published, revisions, sentence):
    published(*revisions)
    with pytest.raises(CoverLockError, match=sentence):
        evidence.checked()
    published("HEAD", "HEAD")
    assert evidence.checked() == "HEAD"

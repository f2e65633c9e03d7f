"""``python -m experiments evidence``: every published result file, made anew by the same code.

The parts run one after the other, each as the command that a reader would type. A finished part is
published at once, and an interrupted run goes on where it stopped. A result file names its revision
and the code that ran. It is up to date if that revision was clean and none of that code has changed
since, nor the weights beside it; other words in docstrings and comments change nothing.
``--check`` fails where a file is missing or out of date.
"""

from __future__ import annotations

import ast
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from coverlock_bench.measurement import FOLDER
from coverlock_bench.results import CHECKOUT, FOLDERS
from coverlock_bench.settings import PAPER
from coverlock_sdk.errors import CoverLockError

RESULTS = CHECKOUT / "bench" / "results"
ASIDE = (
    "coverlock_sdk/cli/",
    "coverlock_sdk/images/decoding_process.py",
    "coverlock_sdk/images/isolation.py",
    "coverlock_sdk/progress.py",
    "plugins/coverlock_plugins/content_credentials/",
    "plugins/coverlock_plugins/ray_cluster/",
    "plugins/coverlock_plugins/service/",
    "export/coverlock_export/commands.py",
    "bench/coverlock_bench/auditing/audit.py",
    "bench/coverlock_bench/demo.py",
    "bench/coverlock_bench/tables.py",
    "bench/coverlock_bench/hashes/tables.py",
    "bench/experiments/__main__.py",
    "bench/experiments/evidence.py",
    "bench/experiments/paper.py",
    "bench/experiments/tables.py",
    "training/coverlock_training/commands.py",
    "training/coverlock_training/calibrate_command.py",
    "training/coverlock_training/hash_command.py",
    "training/coverlock_training/watermark_command.py",
    "web/",
)
"""Code that the command line imports, and that makes none of these figures: commands, tables, what
serves other people's pictures."""
STUDY, TOOL = "python -m experiments", "coverlock"
SYSTEMS = "-w mbrs -w cin"


@dataclass(frozen=True)
class Part:
    """One result file, and the command that makes it.

    ``{eval}`` in a command stands for the folder of photos that no training has seen, ``{train}``
    for the one that networks learn from, ``{work}`` for the working folder.
    """

    name: str
    command: str
    beside: tuple[str, ...] = ()
    """Folders of code that the command runs in other processes."""

    def line(self, data: Path, work: Path) -> str:
        """The command for these folders, without the result file."""
        folders = {"eval": data / "eval", "train": data / "train", "work": work}
        return self.command.format(**{k: shlex.quote(str(v)) for k, v in folders.items()})

    def arguments(self, line: str, out: Path) -> list[str]:
        """What is run: the same Python, the same modules."""
        module = "experiments" if line.startswith(STUDY) else "coverlock_sdk"
        words = shlex.split(line.removeprefix(STUDY).removeprefix(TOOL))
        return [sys.executable, "-m", module, *words, "--out", str(out)]


PARTS = (
    Part(
        "headline",
        f"{STUDY} headline {SYSTEMS} -d none -d coverlock -d coverlock:registry={{work}}/marked.db "
        "--groups 60 --images {eval}/coco --work {work}/headline.sqlite",
    ),
    Part(
        "lengths",
        f"{STUDY} headline -w mbrs-100 -w mbrs-256 -a gt --groups 60 --genuine 60 "
        "--images {eval}/coco --work {work}/lengths.sqlite",
    ),
    Part(
        "paper",
        f"{STUDY} headline {SYSTEMS} -d {PAPER},hash=dinov2-s -a gt --groups 60 --genuine 60 "
        "--images {eval}/coco --work {work}/paper.sqlite",
    ),
    Part("forgers", f"{STUDY} forgers --images {{eval}}/coco --pairs 60 --sources 500"),
    Part("hash", f"{TOOL} bench hash --images {{eval}}/coco --count 200"),
    Part(
        "transferability",
        f"{STUDY} transferability {SYSTEMS} -w hidden -w rivagan-trained --images {{eval}} "
        "--sources 1 --sources 10 --sources 100 --sources 1000 "
        "--work {work}/transferability.sqlite",
    ),
    Part("calibration", f"{STUDY} calibration -w mbrs --count 100 --images {{eval}}/coco"),
    Part(
        "forgers-dinov2",
        f"{STUDY} forgers --hash dinov2-s --images {{eval}}/coco --pairs 4 --sources 30 "
        "--only moved-34 --only edits --only hybrid-14 --only hybrid-32",
    ),
    Part("key-learners", f"{STUDY} key-learners --images {{train}}/coco"),
    Part(
        "key-learners-dinov2",
        f"{STUDY} key-learners --hash dinov2-s --count 2000 --images {{train}}/coco",
    ),
    Part(
        "white-box",
        f"{STUDY} white-box -w mbrs --hash octave --hash dinov2-s --images {{eval}}/coco "
        "--work {work}/white-box.sqlite",
    ),
    Part("walkers", f"{STUDY} walkers --images {{eval}}/coco"),
    Part("standing", f"{STUDY} standing -w mbrs --images {{eval}}/coco"),
    Part("deployed", f"{STUDY} deployed --images {{eval}}/coco --work {{work}}/deployed"),
    Part(
        "speed",
        f"{STUDY} speed --turns 3 --rounds 2 --pictures 600 --images {{eval}}/coco "
        "--work {work}/speed",
    ),
    Part(
        "siege",
        f"{STUDY} siege {{work}}/speed/bundle --images {{eval}}/coco --side 256 "
        "--nginx examples/deploy/nginx.conf",
        beside=("plugins/coverlock_plugins/service/", "coverlock_sdk/"),
    ),
    Part(
        "interventions",
        f"{STUDY} interventions {{train}}/coco --images {{eval}}/coco --bf16 "
        "--runs {work}/interventions",
    ),
    Part(
        "training-factors",
        f"{STUDY} training-factors {{train}}/coco --other-photos {{train}}/imagenette "
        "--images {eval}/coco --bf16 --runs {work}/training-factors",
    ),
)


@click.command("evidence")
@click.option(
    "--data",
    type=FOLDER,
    envvar="COVERLOCK_DATA",
    help="Folder with the photos: eval/coco, train/coco and train/imagenette.",
)
@click.option("--only", multiple=True, help="A part; may be repeated. Others stay as they are.")
@click.option(
    "--work",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/evidence"),
    show_default=True,
    help="Where parts keep what they have measured; an interrupted run resumes there.",
)
@click.option("--check", is_flag=True, help="Only say whether the published files are up to date.")
def evidence(data: Path | None, only: tuple[str, ...], work: Path, check: bool) -> None:
    """Make the published result files that are missing or out of date, from a clean checkout."""
    if check:
        for part in PARTS:
            if reason := out_of_date(part):
                raise CoverLockError(f"{reason}: run 'python -m experiments evidence'")
        click.echo(f"all {len(PARTS)} result files are of the present code")
        return
    if data is None:
        raise CoverLockError("name the folder with the photos: --data FOLDER")
    unknown = set(only) - {part.name for part in PARTS}
    if unknown:
        names = ", ".join(part.name for part in PARTS)
        raise CoverLockError(f"there is no part '{min(unknown)}': choose from {names}")
    if uncommitted := _changed("HEAD"):
        raise CoverLockError(f"commit your changes first: {uncommitted[0]} differs from HEAD")
    for part in PARTS:
        if (not only or part.name in only) and out_of_date(part):
            _make(part, data, work)


def out_of_date(part: Part) -> str | None:
    """Why the published file of a part is not one of the present code, if it is not."""
    path = RESULTS / f"{part.name}.json"
    if not path.exists():
        return f"{path.name} is missing"
    document = json.loads(path.read_text())
    made_by, ran = str(document.get("revision")), document.get("code")
    if made_by == "None" or made_by.endswith("-dirty"):
        return f"{path.name} is not of a clean revision ({made_by})"
    if not ran:
        return f"{path.name} does not say which code made it"
    changed = _changed(made_by)
    if changed is None:
        return f"revision {made_by} of {path.name} is not in this history"
    for file in changed:
        concerns = file.startswith(part.beside) or _concerns(file, ran)
        if concerns and not _same_code(file, made_by):
            return f"{file} has changed since {path.name} was made"
    return None


def _concerns(file: str, ran: Sequence[str]) -> bool:
    """Whether a file is of the code that ran, or data in the folder of a package that ran."""
    if file.startswith(ASIDE):
        return False
    folder = Path(file).parent
    homes = {(place / "__init__.py").as_posix() for place in (folder, folder.parent)}
    return file in ran or (not file.endswith(".py") and not homes.isdisjoint(ran))


def _same_code(file: str, revision: str) -> bool:
    """Whether a module differs from a revision in docstrings, comments and layout only."""
    now = CHECKOUT / file
    if not file.endswith(".py") or not now.exists():
        return False
    return _logic(now.read_text()) == _logic(_git("show", f"{revision}:{file}") or "")


def _logic(source: str) -> str:
    """The syntax tree of a module, without strings that stand alone."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body = [each for each in node.body if not _is_text(each)]
    return ast.dump(tree)


def _is_text(statement: ast.stmt) -> bool:
    """Whether a statement is a docstring."""
    value = getattr(statement, "value", None)
    return isinstance(statement, ast.Expr) and isinstance(getattr(value, "value", None), str)


def _changed(since: str) -> list[str] | None:
    """The files of code that differ from a revision; None if there is no such revision."""
    results = ":(exclude)bench/results"
    found = _git("diff", "--name-only", since, "--", *FOLDERS, results)
    return None if found is None else found.split()


def _git(*words: str) -> str | None:
    """What git prints in the checkout; None if it fails."""
    done = subprocess.run(
        ["git", *words], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    return None if done.returncode else done.stdout


def _make(part: Part, data: Path, work: Path) -> None:
    """Run the command of a part, and publish its file."""
    work.mkdir(parents=True, exist_ok=True)
    begun = work / f"{part.name}.begun.json"
    line = part.line(data, work)
    click.echo(f"{part.name}: {line}", err=True)
    run = subprocess.run(part.arguments(line, begun), env=os.environ, check=False)
    if run.returncode:
        raise CoverLockError(
            f"'{part.name}' failed with exit code {run.returncode}; "
            "fix the cause and run the same command again"
        )
    shutil.move(begun, RESULTS / f"{part.name}.json")

"""``python -m experiments evidence``: every published result file, made anew by the same code.

The parts run one after the other, each as the command that a reader would type. A finished part is
published at once, and an interrupted run goes on where it stopped. A published file is up to date
if it was made by a clean revision and none of the code has changed since, so files may be committed
as they come. ``--check`` fails where one is missing or out of date.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from coverlock_bench.measurement import FOLDER
from coverlock_bench.settings import PAPER
from coverlock_sdk.errors import CoverLockError

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results"
CODE = (
    "coverlock_sdk",
    "plugins",
    "export",
    "bench/coverlock_bench",
    "bench/experiments",
    "training",
)
"""What results depend on. After the evidence was made, only other files may change."""
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
        "--groups 40 --images {eval}/coco --work {work}/headline.sqlite",
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
        f"{STUDY} transferability {SYSTEMS} -w hidden -w rivagan-trained --images {{eval}}/coco",
    ),
    Part("calibration", f"{STUDY} calibration -w mbrs --images {{eval}}/coco"),
    Part(
        "forgers-dinov2",
        f"{STUDY} forgers --hash dinov2-s --images {{eval}}/coco --pairs 20 --sources 100",
    ),
    Part("key-learners", f"{STUDY} key-learners --images {{train}}/coco"),
    Part(
        "white-box",
        f"{STUDY} white-box -w mbrs --hash octave --hash dinov2-s --images {{eval}}/coco",
    ),
    Part("walkers", f"{STUDY} walkers --images {{eval}}/coco"),
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
    made_by = str(json.loads(path.read_text()).get("revision"))
    if made_by == "None" or made_by.endswith("-dirty"):
        return f"{path.name} is not of a clean revision ({made_by})"
    changed = _changed(made_by)
    if changed is None:
        return f"revision {made_by} of {path.name} is not in this history"
    if changed:
        return f"{changed[0]} has changed since {path.name} was made"
    return None


def _changed(since: str) -> list[str] | None:
    """The files of the code that differ from a revision; None where there is no such revision."""
    found = subprocess.run(
        ["git", "diff", "--name-only", since, "--", *CODE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return None if found.returncode else found.stdout.split()


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

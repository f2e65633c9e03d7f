"""``python -m experiments evidence``: every published result file, made anew by one revision.

The parts run one after the other, each as the command that a reader would type. What is finished
stays in the working folder, so an interrupted run goes on where it stopped; nothing is published
before every part was made by the same clean revision. ``--check`` says whether the published files
are those of one clean revision whose code is still the present one.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from coverlock_bench.measurement import FOLDER
from coverlock_bench.results import revision
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
        "--groups 150 --images {eval}/coco --work {work}/headline.sqlite",
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
    help="Where finished parts wait for the others; an interrupted run resumes there.",
)
@click.option("--check", is_flag=True, help="Only say whether the published files are up to date.")
def evidence(data: Path | None, only: tuple[str, ...], work: Path, check: bool) -> None:
    """Make every published result file from a clean checkout, and publish them together."""
    if check:
        click.echo(f"all {len(PARTS)} result files are those of {checked()}")
        return
    if data is None:
        raise CoverLockError("name the folder with the photos: --data FOLDER")
    made_by = revision()
    if made_by is None or made_by.endswith("-dirty"):
        raise CoverLockError("evidence needs a clean checkout: commit your changes first")
    unknown = set(only) - {part.name for part in PARTS}
    if unknown:
        names = ", ".join(part.name for part in PARTS)
        raise CoverLockError(f"there is no part '{min(unknown)}': choose from {names}")
    work = work / made_by
    chosen = [part for part in PARTS if not only or part.name in only]
    finished = list(_made(chosen, data, work))
    for path in finished:
        (RESULTS / path.name).write_bytes(path.read_bytes())
    click.echo(f"{len(finished)} result files of {made_by} are in {RESULTS}")


def checked() -> str:
    """The revision of the published files; an error where they are not of one that still holds."""
    again = "run 'python -m experiments evidence' on a clean checkout"
    revisions: dict[str, str] = {}
    for part in PARTS:
        path = RESULTS / f"{part.name}.json"
        if not path.exists():
            raise CoverLockError(f"{path.name} is missing: {again}")
        revisions[part.name] = str(json.loads(path.read_text()).get("revision"))
    made_by = set(revisions.values())
    if len(made_by) > 1 or any(one == "None" or one.endswith("-dirty") for one in made_by):
        listed = ", ".join(f"{name} {one}" for name, one in revisions.items())
        raise CoverLockError(f"result files are not of one clean revision ({listed}): {again}")
    [one] = made_by
    changed = subprocess.run(
        ["git", "diff", "--name-only", one, "HEAD", "--", *CODE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if changed.returncode:
        raise CoverLockError(f"revision {one} of the result files is not in this history: {again}")
    if names := changed.stdout.split():
        raise CoverLockError(f"{names[0]} and {len(names) - 1} other files changed since: {again}")
    return one


def _made(parts: Sequence[Part], data: Path, work: Path) -> Iterator[Path]:
    """The file of each part, made unless it is there."""
    work.mkdir(parents=True, exist_ok=True)
    for part in parts:
        finished, begun = work / f"{part.name}.json", work / f"{part.name}.begun.json"
        if not finished.exists():
            line = part.line(data, work)
            click.echo(f"{part.name}: {line}", err=True)
            run = subprocess.run(part.arguments(line, begun), env=os.environ, check=False)
            if run.returncode:
                raise CoverLockError(
                    f"'{part.name}' failed with exit code {run.returncode}; mend it and run the "
                    "same command again: finished parts are kept"
                )
            begun.rename(finished)
        yield finished

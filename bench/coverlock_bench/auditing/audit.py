"""``coverlock audit``: how forgeable is this watermark, by whom, and what would a lock change?"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from coverlock_bench.auditing.assessment import Assessment
from coverlock_bench.auditing.collection import SIDE, Collection, collect
from coverlock_bench.auditing.exhibits import Exhibit, exhibits
from coverlock_bench.auditing.presets import Plan, plan_options
from coverlock_bench.auditing.verdict import Condition, Findings, Level, findings, metrics
from coverlock_bench.ledger import Ledger, Session, resumable
from coverlock_bench.measurement import FOLDER
from coverlock_bench.results import result_document, write_document
from coverlock_bench.settings import named_watermark
from coverlock_sdk import CoverLockError
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.images.codecs import write_file
from coverlock_sdk.locking.coverlock import DEFAULT_FPR
from coverlock_sdk.plugin_calls import working_size

FEWEST_PICTURES = 20
COLOURS: dict[Level, str] = {
    "forgeable": "red",
    "transferable": "yellow",
    "copied": "yellow",
    "resisted": "green",
    "unmeasured": "yellow",
}
TONES = {"bad": "red", "good": "green", "unknown": "yellow"}


@click.command()
@click.argument("watermark")
@click.option("--images", type=FOLDER, required=True, help="Folder of photos of any size.")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for report.html, results.json and pictures; an interrupted audit resumes there.",
)
@plan_options
@click.option(
    "--fail-if",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Exit with code 1 if this holds, for example 'locked_asr_high>0.1'. Repeatable.",
)
@json_option
def audit(
    watermark: str,
    images: Path,
    out: Path,
    conditions: tuple[str, ...],
    as_json: bool,
    **measured: Any,
) -> None:
    """Find out how forgeable WATERMARK is, with and without a lock.

    WATERMARK is NAME or NAME:OPTION=VALUE,... of any installed plugin. The exit code is 1 if a
    condition of --fail-if holds, 2 if the audit could not run, and 0 otherwise.
    """
    from coverlock_bench.auditing.report import require_packages

    require_packages()
    plan = Plan.of(**measured)
    gates = [Condition.parse(text) for text in conditions]
    for gate in gates:
        gate.require_known(plan)
    system = named_watermark(watermark)
    session = Session(Ledger(out / "measurements.sqlite"), quiet=False)
    with resumable(out, session):
        collection = _photos(images, plan, max(SIDE, *working_size(system)), out)
        assessment = Assessment(system, plan, session)
        session.stages = assessment.stages + 1  # the pictures
        figures = assessment.figures(collection)
        figures["pictures"] = {"name": collection.name, **collection.described()}
        figures["metrics"] = metrics(figures)
        shown, figures["not_shown"] = exhibits(assessment, collection)
    found = findings(figures)
    decided = [gate for gate in gates if gate.metric in figures["metrics"]]
    failed = [gate for gate in decided if gate.holds(figures["metrics"])]
    document = result_document("audit", {**plan.to_dict(), "watermark": watermark}, figures)
    document |= {"verdict": found.to_dict(), "failed": [str(gate) for gate in failed]}
    _write(out, document, found, shown, _command(images, watermark))
    if as_json:
        click.echo(json.dumps(document, indent=2))
    else:
        _print(found, out, failed)
    for gate in gates:
        gate.holds(figures["metrics"])  # one that cannot be decided is an error, not a pass
    if failed:
        raise click.exceptions.Exit(1)


def _photos(images: Path, plan: Plan, side: int, out: Path) -> Collection:
    wanted, naturals = plan.preset.pictures, plan.preset.naturals
    collection = collect(images, wanted, naturals, side, quiet=False, outside=out)
    if len(collection.pictures) < FEWEST_PICTURES:
        raise CoverLockError(
            f"an audit needs at least {FEWEST_PICTURES} pictures, half to steal from and half to "
            f"forge, and '{plan.preset.name}' uses {wanted}: {images} has "
            f"{len(collection.pictures)} that can be read"
        )
    return collection


def _write(
    out: Path, document: dict[str, Any], found: Findings, shown: list[Exhibit], command: str
) -> None:
    from coverlock_bench.auditing.report import render

    write_document(out / "results.json", document)
    pictures = out / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    for exhibit in shown:
        write_file(pictures / f"{exhibit.name}.png", exhibit.content())
    write_file(out / "report.html", render(document, found, shown, command).encode())


def _command(images: Path, watermark: str) -> str:
    """The command that makes the same figures again."""
    given = click.get_current_context().params
    words = ["coverlock", "audit", watermark, "--images", images.name, "--preset", given["preset"]]
    repeated = {"-a": "attacks", "-d": "defenses", "--distortion": "distortions"}
    for option, name in repeated.items():
        words += [word for setting in given[name] for word in (option, setting)]
    words += [] if given["fpr"] == DEFAULT_FPR else ["--fpr", f"{given['fpr']:g}"]
    return shlex.join([*words, "--out", "audit"])


def _print(found: Findings, out: Path, failed: list[Condition]) -> None:
    console = Console(highlight=False)
    console.print(f"[bold {COLOURS[found.level]}]{found.verdict}[/]")
    console.print(found.advice, markup=False)
    for tile in found.tiles:
        count = f"[{TONES[tile.tone]}]{tile.count}[/] forgeries accepted"
        console.print(f"  {tile.title}: {count} ({tile.note})")
    for gate in failed:
        console.print(f"[red]failed:[/] {gate}")
    console.print(f"report: {out / 'report.html'}", soft_wrap=True)

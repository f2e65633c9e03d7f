"""``coverlock audit``: how forgeable is this watermark, by what, and what would a lock change?"""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from coverlock_bench.auditing.assessment import Assessment, Plan
from coverlock_bench.auditing.collection import SIDE, Collection, collect
from coverlock_bench.auditing.exhibits import Exhibit, exhibits
from coverlock_bench.auditing.findings import (
    Findings,
    Level,
    findings,
    given,
    metric_names,
    metrics,
)
from coverlock_bench.auditing.gate import Condition
from coverlock_bench.auditing.options import planned
from coverlock_bench.auditing.schedule import audit_stages
from coverlock_bench.forecast import OverallProgress
from coverlock_bench.ledger import Ledger, Session, resumable
from coverlock_bench.measurement import FOLDER
from coverlock_bench.results import result_document, write_document
from coverlock_bench.settings import named_watermark
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.errors import CoverLockError
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
FIRST_SHARE = 0.25
"""Of the pictures, on which everything is measured once before a run with little time goes on."""


@click.command()
@click.argument("watermark")
@click.option(
    "--images",
    type=FOLDER,
    required=True,
    help="Folder of photos of any size.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for report.html, results.json and pictures; an interrupted audit goes on there.",
)
@planned
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    help="Begin nothing new after this time, and report what there is.",
)
@click.option(
    "--fail-if",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Exit with code 1 if this holds, for example 'asr>0.01'. May be repeated.",
)
@json_option
def audit(
    watermark: str,
    images: Path,
    out: Path,
    plan: Plan,
    minutes: float | None,
    conditions: tuple[str, ...],
    as_json: bool,
) -> None:
    """Find out how forgeable WATERMARK is, and what locking it would change.

    WATERMARK is NAME or NAME:OPTION=VALUE,... Any installed plugin, any folder of photos. The exit
    code is 0, or 1 when a condition of --fail-if holds, or 2 when the audit could not be made.
    """
    from coverlock_bench.auditing.report import require_packages

    require_packages()
    started = time.monotonic()
    gates = [Condition.parse(text) for text in conditions]
    system = named_watermark(watermark)
    for gate in gates:
        if gate.metric not in metric_names(plan):
            names = ", ".join(metric_names(plan))
            raise CoverLockError(f"there is no metric '{gate.metric}': use one of {names}")
    side = max(SIDE, *working_size(system))
    wanted, naturals = plan.preset.pictures, plan.preset.naturals
    with resumable(out):
        collection = collect(images, wanted, naturals, side, quiet=False, outside=out)
    if len(collection.pictures) < FEWEST_PICTURES:
        raise CoverLockError(
            f"an audit needs at least {FEWEST_PICTURES} pictures, half to steal from and half to "
            f"forge, and '{plan.preset.name}' uses {wanted}: {images} has "
            f"{len(collection.pictures)} that can be read"
        )
    deadline = None if minutes is None else started + 60 * minutes
    stages = audit_stages(system, plan, hurried=minutes is not None)
    with resumable(out), OverallProgress("audit", stages, deadline) as overall:
        session = Session(Ledger(out / "measurements.sqlite"), deadline, overall=overall)
        assessment = Assessment(system, plan, session)
        figures = _measure(assessment, collection)
        shown, left_out = exhibits(assessment, collection)
    figures["not_shown"] = left_out
    figures["out_of_time"] = session.out_of_time
    verdict = findings(figures)
    document = result_document("audit", {**plan.to_dict(), "watermark": watermark}, figures)
    document["verdict"] = {**asdict(verdict), "paragraph": verdict.paragraph}
    decided = [gate for gate in gates if gate.metric in figures["metrics"]]
    failed = [gate for gate in decided if gate.holds(figures["metrics"])]
    document["failed"] = [str(gate) for gate in failed]
    _write(out, document, verdict, shown, _command(images, watermark))
    if as_json:
        click.echo(json.dumps(document, indent=2))
    else:
        _print(verdict, out, session, failed)
    for gate in gates:
        gate.holds(figures["metrics"])  # one that cannot be decided is an error, not a pass
    if failed:
        raise click.exceptions.Exit(1)


def _measure(assessment: Assessment, collection: Collection) -> dict[str, Any]:
    figures = assessment.description()
    if assessment.session.deadline is not None:
        assessment.security(collection, share=FIRST_SHARE)
    figures["rt"] = assessment.transferability(collection)
    figures["signatures"] = assessment.signatures(collection)
    figures["security"] = assessment.security(collection)
    figures["defenses"] = [str(defense) for defense in assessment.plan.defenses]
    attacks = [str(attack) for attack in assessment.plan.attacks]
    figures["given"] = {attack: given(attack) for attack in attacks}
    figures["pictures"] = {"name": collection.name, **collection.described()}
    figures["metrics"] = metrics(figures)
    return figures


def _write(
    out: Path, document: dict[str, Any], verdict: Findings, shown: list[Exhibit], command: str
) -> None:
    from coverlock_bench.auditing.report import render

    write_document(out / "results.json", document)
    pictures = out / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    for exhibit in shown:
        write_file(pictures / f"{exhibit.name}.png", exhibit.content())
    write_file(out / "report.html", render(document, verdict, shown, command).encode())


def _command(images: Path, watermark: str) -> str:
    """The command that makes the same figures again."""
    given = click.get_current_context().params
    words = ["coverlock", "audit", watermark, "--images", images.name, "--preset", given["preset"]]
    repeated = {"-a": "attacks", "-d": "defenses", "--distortion": "distortions"}
    for option, name in repeated.items():
        words += [word for setting in given[name] for word in (option, setting)]
    words += [] if given["fpr"] == DEFAULT_FPR else ["--fpr", f"{given['fpr']:g}"]
    return shlex.join([*words, "--out", "audit"])


def _print(verdict: Findings, out: Path, session: Session, failed: list[Condition]) -> None:
    console = Console(soft_wrap=False)
    console.print(f"[bold {COLOURS[verdict.level]}]{verdict.headline}[/]", highlight=False)
    console.print(verdict.paragraph, highlight=False, markup=False)
    if session.out_of_time:
        console.print("Time ran out: the same command goes on from here.", highlight=False)
    for gate in failed:
        console.print(f"[red]failed:[/] {gate}", highlight=False)
    console.print(f"report: {out / 'report.html'}", highlight=False, soft_wrap=True)

"""``coverlock bench ...``: measurements whose results are files."""

from __future__ import annotations

import json
from pathlib import Path

import click

from coverlock_bench.adaptive.commands import adaptive, levers
from coverlock_bench.auditing.security import security_command
from coverlock_bench.deployment.latency.command import latency
from coverlock_bench.deployment.overhead_command import overhead
from coverlock_bench.deployment.parity_command import parity
from coverlock_bench.deployment.scaling import scaling
from coverlock_bench.deployment.service_command import service
from coverlock_bench.hashes.commands import (
    calibration,
    documents,
    hardening,
    hash_command,
    hash_latency_command,
    hash_variants_command,
)
from coverlock_bench.knowing.commands import key_attacks, lock_schemes_command
from coverlock_bench.options import (
    hash_option,
    held_out_option,
    images_option,
    out_option,
    watermarks_option,
)
from coverlock_bench.photos import find_photos
from coverlock_bench.results import write_and_print
from coverlock_bench.zoo.commands import (
    filters_command,
    interventions,
    references_command,
    training_factors_command,
)
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.locking.coverlock import DEFAULT_FPR, DEFAULT_ROUNDS


@click.group()
def bench() -> None:
    """Measure: every result is a file that says how it was made."""


for command in (
    security_command,
    hash_command,
    hash_variants_command,
    hash_latency_command,
    hardening,
    calibration,
    documents,
    adaptive,
    levers,
    key_attacks,
    lock_schemes_command,
    references_command,
    interventions,
    training_factors_command,
    filters_command,
    parity,
    overhead,
    latency,
    service,
    scaling,
):
    bench.add_command(command)


@bench.command()
@watermarks_option
@images_option
@hash_option
@click.option("--rounds", default=DEFAULT_ROUNDS, show_default=True)
@click.option("--fpr", default=DEFAULT_FPR, show_default=True)
@out_option
@json_option
def roundtrip(
    watermarks: tuple[str, ...],
    images: Path | None,
    hash: str,
    rounds: int,
    fpr: float,
    out: Path,
    as_json: bool,
) -> None:
    """Mark photos and verify them as saved: unlocked, locked once, locked to a fixed point."""
    from coverlock_bench.roundtrip import roundtrip as measure

    photos = find_photos(images)
    figures = {name: measure(name, photos, hash, rounds, fpr) for name in watermarks}
    config = {"hash": hash, "rounds": rounds, "fpr": fpr, "photos": len(photos)}
    write_and_print(out, "bench roundtrip", config, figures, as_json)


@bench.command()
@watermarks_option
@images_option
@hash_option
@held_out_option
@click.option("--count", default=100, show_default=True, help="How many photos to use.")
@click.option("--fpr", default=DEFAULT_FPR, show_default=True)
@click.option("--seed", default=0, show_default=True)
@out_option
@json_option
def rules(
    watermarks: tuple[str, ...],
    images: Path | None,
    hash: str,
    held_out: bool,
    count: int,
    fpr: float,
    seed: int,
    out: Path,
    as_json: bool,
) -> None:
    """Compare the hard and the soft rule: genuine pictures under distortion, and forgeries."""
    from coverlock_bench.rules import compare_rules

    photos = find_photos(images, held_out)[:count]
    figures = {name: compare_rules(name, hash, photos, fpr, seed) for name in watermarks}
    config = {"hash": hash, "photos": len(photos), "held_out": held_out, "fpr": fpr, "seed": seed}
    write_and_print(out, "bench rules", config, figures, as_json)


@bench.command()
@click.argument("result", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("picture", type=click.Path(dir_okay=False, path_type=Path))
def draw(result: Path, picture: Path) -> None:
    """Draw the figures of a RESULT file to a PICTURE (PNG, PDF or SVG)."""
    from coverlock_bench.auditing.figures import draw_tradeoff
    from coverlock_bench.hashes.calibration_picture import draw_calibration
    from coverlock_bench.hashes.hash_picture import draw_hashes
    from coverlock_bench.zoo.intervention_picture import draw_interventions

    drawers = {
        "bench hash": draw_hashes,
        "bench calibration": draw_calibration,
        "bench interventions": draw_interventions,
        "bench security": draw_tradeoff,
    }
    document = json.loads(result.read_text())
    command = document.get("command")
    if command not in drawers:
        raise CoverLockError(f"there is no picture for '{command}': only for {', '.join(drawers)}")
    drawers[command](document["figures"], picture)


@bench.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--results", type=click.Path(path_type=Path), default=Path("bench/results"))
@click.option("--check", is_flag=True, help="Only say whether the tables are up to date.")
def tables(files: tuple[Path, ...], results: Path, check: bool) -> None:
    """Render the tables of Markdown FILES from result files."""
    from coverlock_bench.tables import render

    stale = []
    for path in files:
        text = path.read_text()
        rendered = render(text, results)
        if rendered != text:
            stale.append(path)
            if not check:
                path.write_text(rendered)
    if check and stale:
        names = " ".join(map(str, stale))
        raise CoverLockError(f"tables are out of date: run 'coverlock bench tables {names}'")

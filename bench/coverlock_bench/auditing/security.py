"""``coverlock bench security``: the paper's security tables for every watermark at hand."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from coverlock_bench.auditing import paper
from coverlock_bench.auditing.assessment import Assessment, Plan
from coverlock_bench.auditing.collection import SIDE, Collection, collect
from coverlock_bench.auditing.options import plan_options
from coverlock_bench.auditing.presets import PRESETS, Preset
from coverlock_bench.ledger import Ledger, Run, resumable
from coverlock_bench.results import write_result
from coverlock_sdk import load_watermark
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.errors import (
    CorruptModelError,
    CoverLockError,
    MissingModelError,
    UnknownNameError,
)
from coverlock_sdk.plugin_manager import plugin_manager

CACHE = Path("runs/security.sqlite")


@click.command("security")
@click.option(
    "-w",
    "--watermark",
    "watermarks",
    multiple=True,
    help="May be repeated; otherwise all that are installed, and the paper's as empty rows.",
)
@click.option(
    "--images",
    "folders",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of photos. May be repeated: distortions and RT are measured on the first.",
)
@plan_options
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    default=CACHE,
    show_default=True,
    help="Finished measurements, from which a repeated command goes on.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Result file (JSON); tables (.md) and plots (.png) are written beside it.",
)
@json_option
def security_command(
    watermarks: tuple[str, ...],
    folders: tuple[Path, ...],
    preset: str,
    attacks: tuple[str, ...],
    defenses: tuple[str, ...],
    fpr: float,
    cache: Path,
    out: Path,
    as_json: bool,
) -> None:
    """Measure forgeries, robustness and RT of watermarks behind every defence.

    'smoke' takes about a minute a watermark, 'standard' hours for all of them, 'full' has the
    paper's sizes. Ctrl-C loses nothing: the same command goes on.
    """
    from coverlock_bench.auditing.figures import draw_errors, draw_tradeoff
    from coverlock_bench.auditing.security_tables import document

    plan = Plan.of(PRESETS[preset], attacks, defenses, fpr)
    run = Run(Ledger(cache), quiet=False)
    names = watermarks or sorted({*plugin_manager().names("watermark"), *paper.SYSTEMS})
    with resumable(cache):
        collections = _collections(folders, plan.preset)
        systems = {name: assess(name, collections, plan, run) for name in names}
    figures = {
        "defenses": [str(defense) for defense in plan.defenses],
        "pictures": {name: _sizes(c) for name, c in collections.items()},
        "systems": systems,
    }
    write_result(out, "bench security", plan.to_dict(), figures)
    text = document(figures)
    out.with_suffix(".md").write_text(text)
    draw_tradeoff(figures, out.with_name(f"{out.stem}-tradeoff.png"))
    draw_errors(figures, out.with_name(f"{out.stem}-errors.png"))
    click.echo(json.dumps({"file": str(out), "figures": figures}, indent=2) if as_json else text)


def assess(name: str, collections: dict[str, Collection], plan: Plan, run: Run) -> dict[str, Any]:
    """All figures of one watermark; without its weights, the reason why there are none."""
    started = time.monotonic()
    try:
        watermark = load_watermark(name)
    except (MissingModelError, CorruptModelError, UnknownNameError) as error:
        return {"not_measured": str(error)}
    first = next(iter(collections.values()))
    if len(first.pictures) < 2:
        raise CoverLockError(
            f"a forgery needs at least 2 pictures, but {first.name} has {len(first.pictures)}"
        )
    assessment = Assessment(watermark, plan, run)
    figures = assessment.description()
    figures["rt"] = assessment.transferability(first)
    figures["signatures"] = assessment.signatures(first)
    figures["security"] = {
        c.name: assessment.security(c, distortions=c is first) for c in collections.values()
    }
    figures["seconds"] = round(time.monotonic() - started)
    return figures


def _collections(folders: tuple[Path, ...], preset: Preset) -> dict[str, Collection]:
    """The photos of each folder by its name, under which figures are reported."""
    found: dict[str, Collection] = {}
    for folder in folders or (None,):
        collection = collect(folder, preset.pictures, preset.naturals, SIDE, quiet=False)
        if collection.name in found:
            raise CoverLockError(
                f"two folders are called '{collection.name}', under which figures are reported: "
                "give one of them another name"
            )
        found[collection.name] = collection
    return found


def _sizes(collection: Collection) -> dict[str, Any]:
    return {
        "read": len(collection.pictures),
        "found": collection.found,
        "side": collection.side,
        "left_out": collection.left_out,
    }

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
from coverlock_bench.auditing.options import planned
from coverlock_bench.auditing.presets import Preset
from coverlock_bench.ledger import Ledger, Session, resumable
from coverlock_bench.measurement import FOLDER
from coverlock_bench.results import write_result
from coverlock_bench.settings import named_watermark
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
    help="NAME or NAME:OPTION=VALUE,... May be repeated; otherwise all that are installed, and "
    "the paper's as empty rows.",
)
@click.option(
    "--images",
    "folders",
    multiple=True,
    type=FOLDER,
    help="Folder of photos. May be repeated: distortions and RT are measured on the first.",
)
@planned
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
    plan: Plan,
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

    session = Session(Ledger(cache), quiet=False)
    names = watermarks or sorted({*plugin_manager().names("watermark"), *paper.SYSTEMS})
    with resumable(cache):
        collections = _collections(folders, plan.preset)
        systems = {name: assess(name, collections, plan, session) for name in names}
    figures = {
        "defenses": [str(defense) for defense in plan.defenses],
        "pictures": {name: collection.described() for name, collection in collections.items()},
        "systems": systems,
    }
    write_result(out, "bench security", plan.to_dict(), figures)
    text = document(figures)
    out.with_suffix(".md").write_text(text)
    draw_tradeoff(figures, out.with_name(f"{out.stem}-tradeoff.png"))
    draw_errors(figures, out.with_name(f"{out.stem}-errors.png"))
    click.echo(json.dumps({"file": str(out), "figures": figures}, indent=2) if as_json else text)


def assess(
    name: str, collections: dict[str, Collection], plan: Plan, session: Session
) -> dict[str, Any]:
    """All figures of one watermark; without its weights, the reason why there are none."""
    started = time.monotonic()
    try:
        watermark = named_watermark(name)
    except (MissingModelError, CorruptModelError, UnknownNameError) as error:
        return {"not_measured": str(error)}
    first = next(iter(collections.values()))
    if len(first.pictures) < 2:
        raise CoverLockError(
            f"a forgery needs at least 2 pictures, but {first.name} has {len(first.pictures)}"
        )
    assessment = Assessment(watermark, plan, session)
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

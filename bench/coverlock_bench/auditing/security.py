"""``coverlock bench security``: what an audit measures, for several watermarks side by side."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from coverlock_bench.auditing.assessment import Assessment
from coverlock_bench.auditing.collection import SIDE, Collection, collect
from coverlock_bench.auditing.presets import Plan, planned
from coverlock_bench.auditing.report import rate_text
from coverlock_bench.auditing.verdict import attack_name, defense_name, metrics
from coverlock_bench.ledger import Ledger, Session, resumable
from coverlock_bench.measurement import images_option
from coverlock_bench.results import write_result
from coverlock_bench.settings import named_watermark
from coverlock_bench.tables import Columns, Row, Table, value_at
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.errors import (
    CorruptModelError,
    CoverLockError,
    MissingModelError,
    UnknownNameError,
)
from coverlock_sdk.plugin_manager import plugin_manager

CACHE = Path("runs/security.sqlite")
Figures = dict[str, Any]


@click.command("security")
@click.option(
    "-w",
    "--watermark",
    "watermarks",
    multiple=True,
    help="NAME or NAME:OPTION=VALUE,... May be repeated; default: all that are installed.",
)
@images_option
@planned
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    default=CACHE,
    show_default=True,
    help="File of finished measurements; run the same command again to resume.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Result file (JSON); tables (.md) are written beside it.",
)
@json_option
def security_command(
    watermarks: tuple[str, ...],
    images: Path | None,
    plan: Plan,
    cache: Path,
    out: Path,
    as_json: bool,
) -> None:
    """Measure forgeries, robustness and RT of several watermarks behind several defences.

    The presets are those of the audit, for each watermark.
    """
    session = Session(Ledger(cache), quiet=False)
    names = watermarks or plugin_manager().names("watermark")
    with resumable(cache):
        pictures = collect(images, plan.preset.pictures, plan.preset.naturals, SIDE, quiet=False)
        if len(pictures.pictures) < 2:
            raise CoverLockError(
                f"a forgery needs at least 2 pictures, but {pictures.name} has "
                f"{len(pictures.pictures)}"
            )
        systems = {name: assess(name, pictures, plan, session) for name in names}
    figures = {
        "defenses": [str(defense) for defense in plan.defenses],
        "pictures": {"name": pictures.name, **pictures.described()},
        "systems": systems,
    }
    write_result(out, "bench security", plan.to_dict(), figures)
    text = "\n\n".join(f"## {table.title}\n\n{table.markdown(figures)}" for table in TABLES) + "\n"
    out.with_suffix(".md").write_text(text)
    click.echo(json.dumps({"file": str(out), "figures": figures}, indent=2) if as_json else text)


def assess(name: str, pictures: Collection, plan: Plan, session: Session) -> Figures:
    """All figures of one watermark; without its weights, the reason why there are none."""
    started = time.monotonic()
    try:
        watermark = named_watermark(name)
    except (MissingModelError, CorruptModelError, UnknownNameError) as error:
        return {"not_measured": str(error)}
    figures = Assessment(watermark, plan, session).figures(pictures)
    figures["metrics"] = metrics(figures)
    figures["seconds"] = round(time.monotonic() - started)
    return figures


# Tables


def _measured(figures: Figures) -> list[Figures]:
    """Systems that were attacked, with their names."""
    systems = figures["systems"].items()
    return [{**system, "system": name} for name, system in systems if "security" in system]


def _forged(figures: Figures) -> Iterator[Row]:
    """Every attack on every system."""
    for system in _measured(figures):
        behind = system["security"]
        for attack in dict.fromkeys(a for b in behind.values() for a in b.get("attacks", {})):
            yield {"system": system["system"], "attack": attack} | behind


def _asr(row: Row, defense: str) -> str:
    cell = value_at(row, f"{defense}/attacks/{row['attack']}") or {}
    if "asr" in cell:
        return rate_text(cell["asr"])
    return f"*{cell['not_measured']}*" if cell else "-"


def _forged_columns(figures: Figures) -> Columns:
    cells = [(defense_name(d), partial(_asr, defense=d)) for d in figures["defenses"]]
    return [("system", "{system}"), ("attack", lambda row: attack_name(row["attack"])), *cells]


def _genuine(figures: Figures) -> Iterator[Row]:
    """Every system behind each defence."""
    for system in _measured(figures):
        for defense, behind in system["security"].items():
            if "genuine" in behind:
                common = {"system": system["system"], "defense": defense_name(defense)}
                yield {**common, "genuine": behind["genuine"]}


def _genuine_columns(figures: Figures) -> Columns:
    def accepted(row: Row, change: str) -> str:
        return rate_text(row["genuine"][change]["tpr"])

    first: Row = next(_genuine(figures), {"genuine": {}})
    shown = [(change, partial(accepted, change=change)) for change in first["genuine"]]
    return [("system", "{system}"), ("defence", "{defense}"), *shown]


def _rt(figures: Figures) -> Iterator[Row]:
    for system in _measured(figures):
        yield {**system, "at": {str(point["sources"]): point for point in system["rt"]["points"]}}


def _rt_columns(figures: Figures) -> Columns:
    counts = {count for row in _rt(figures) for count in row["at"]}
    interval = "{at/N/rt|-:.3f} [{at/N/low:.3f}, {at/N/high:.3f}]"
    return [
        ("system", "{system}"),
        ("bits", "{bits}"),
        *((f"RT@{n}", interval.replace("N", n)) for n in sorted(counts, key=int)),
        ("locked, RT@1", "{metrics/locked_rt|-:.3f}"),
        ("residuals correlate", "{signatures/residuals/averaged_correlation|-:.2f}"),
        ("features follow the cover", "{signatures/features/cover|-:%0} %"),
    ]


TABLES = (
    Table("Forgeries accepted", _forged, _forged_columns),
    Table("Genuine pictures accepted", _genuine, _genuine_columns),
    Table("Residual transferability and signatures", _rt, _rt_columns),
)

"""``coverlock bench security``: what an audit measures, for several watermarks side by side."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from coverlock_bench.auditing.assessment import Assessment
from coverlock_bench.auditing.collection import SIDE, Collection, collect
from coverlock_bench.auditing.presets import Plan, plan_options
from coverlock_bench.auditing.report import rate_text
from coverlock_bench.auditing.verdict import attack_name, defense_name, metrics
from coverlock_bench.ledger import Ledger, Session, resumable
from coverlock_bench.measurement import Measured, images_option, measurement, work_option
from coverlock_bench.settings import named_watermark
from coverlock_bench.tables import Columns, Row, Table
from coverlock_sdk import CoverLockError
from coverlock_sdk.errors import CorruptModelError, MissingModelError, UnknownNameError
from coverlock_sdk.plugin_manager import plugin_manager

Figures = dict[str, Any]


@measurement(
    "bench security",
    click.option(
        "-w",
        "--watermark",
        "watermarks",
        multiple=True,
        show_default="all that are installed",
        help="Watermark, as NAME or NAME:OPTION=VALUE,... Repeatable.",
    ),
    images_option,
    plan_options,
    work_option("security"),
)
def security_command(
    watermarks: tuple[str, ...], images: Path | None, work: Path, **measured: Any
) -> Measured:
    """Measure forgeries, robustness and RT of several watermarks behind several defences.

    The presets are those of the audit, for each watermark.
    """
    plan = Plan.of(**measured)
    session = Session(Ledger(work), quiet=False)
    names = watermarks or plugin_manager().names("watermark")
    with resumable(work):
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
    tables = [f"## {table.title}\n\n{table.markdown(figures)}" for table in TABLES]
    return Measured(plan.to_dict(), figures, "\n\n".join(tables))


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
    cell = row[defense].get("attacks", {}).get(row["attack"], {})
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

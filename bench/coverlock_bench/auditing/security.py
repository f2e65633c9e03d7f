"""``coverlock bench security``: what an audit measures, over several watermarks and photo sets."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import click

from coverlock_bench.auditing.assessment import Assessment
from coverlock_bench.auditing.collection import SIDE, Collection, collect
from coverlock_bench.auditing.presets import Plan, Preset, planned
from coverlock_bench.auditing.report import rate_text
from coverlock_bench.auditing.verdict import attack_name, defense_name
from coverlock_bench.ledger import Ledger, Session, resumable
from coverlock_bench.measurement import FOLDER
from coverlock_bench.results import write_result
from coverlock_bench.settings import named_watermark
from coverlock_bench.tables import Columns, Row, Table, value_at
from coverlock_bench.trial import CLEAN
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.errors import (
    CorruptModelError,
    CoverLockError,
    MissingModelError,
    UnknownNameError,
)
from coverlock_sdk.images.distortions import EVALUATION
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
    folders: tuple[Path, ...],
    plan: Plan,
    cache: Path,
    out: Path,
    as_json: bool,
) -> None:
    """Measure forgeries, robustness and RT of several watermarks behind several defences.

    The presets are those of the audit, for each watermark and folder.
    """
    session = Session(Ledger(cache), quiet=False)
    names = watermarks or plugin_manager().names("watermark")
    with resumable(cache):
        collections = _collections(folders, plan.preset)
        systems = {name: assess(name, collections, plan, session) for name in names}
    figures = {
        "defenses": [str(defense) for defense in plan.defenses],
        "pictures": {name: collection.described() for name, collection in collections.items()},
        "systems": systems,
    }
    write_result(out, "bench security", plan.to_dict(), figures)
    text = "\n\n".join(f"## {t.title}\n\n{t.markdown(figures)}" for t in TABLES.values()) + "\n"
    out.with_suffix(".md").write_text(text)
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


# Tables


def _measured(figures: Figures) -> list[Figures]:
    """Systems that were attacked, with their names."""
    systems = figures["systems"].items()
    return [{**system, "system": name} for name, system in systems if "security" in system]


def _forged(figures: Figures) -> Iterator[Row]:
    """Every attack on every system and photo set."""
    for system in _measured(figures):
        for photos, behind in system["security"].items():
            for attack in dict.fromkeys(a for b in behind.values() for a in b.get("attacks", {})):
                yield {"system": system["system"], "photos": photos, "attack": attack} | behind


def _asr(row: Row, defense: str) -> str:
    cell = value_at(row, f"{defense}/attacks/{row['attack']}") or {}
    if "asr" in cell:
        return rate_text(cell["asr"])
    return f"*{cell['not_measured']}*" if cell else "-"


def _forged_columns(figures: Figures) -> Columns:
    cells = [(defense_name(d), partial(_asr, defense=d)) for d in figures["defenses"]]
    attack = ("attack", lambda row: attack_name(row["attack"]))
    return [("system", "{system}"), ("photos", "{photos}"), attack, *cells]


def _genuine(figures: Figures) -> Iterator[Row]:
    """Every system behind each defence, on the photo set with distortions."""
    for system in _measured(figures):
        for defense, behind in next(iter(system["security"].values())).items():
            if "genuine" in behind:
                common = {"system": system["system"], "defense": defense_name(defense)}
                yield {**common, "genuine": behind["genuine"]}


def _changes(figures: Figures) -> list[str]:
    return list(next(iter(_genuine(figures)), {"genuine": {}})["genuine"])


def _genuine_columns(figures: Figures) -> Columns:
    def accepted(row: Row, change: str) -> str:
        return rate_text(row["genuine"][change]["tpr"])

    shown = [(change, partial(accepted, change=change)) for change in _changes(figures)]
    return [("system", "{system}"), ("defence", "{defense}"), *shown]


def _errors(figures: Figures) -> Iterator[Row]:
    """Mean bit errors under the six distortions, as far as they were measured."""
    for row in _genuine(figures):
        cells = [row["genuine"][change] for change in EVALUATION if change in row["genuine"]]
        if cells:
            parts = {
                part: fmean(cell["error"][part] for cell in cells)
                for part in ("payload", "hash", "message")
                if cells[0]["error"][part] is not None
            }
            yield {**row, **parts, "clean": row["genuine"][CLEAN]}


def _rt(figures: Figures) -> Iterator[Row]:
    for system in _measured(figures):
        points = {str(point["sources"]): point for point in system["rt"]["points"]}
        yield {**system, "at": points, "locked": system["rt"]["locked"]}


def _rt_columns(figures: Figures) -> Columns:
    counts = {count for row in _rt(figures) for count in row["at"]}
    interval = "{at/N/rt|-:.3f} [{at/N/low:.3f}, {at/N/high:.3f}]"
    return [
        ("system", "{system}"),
        ("bits", "{bits}"),
        *((f"RT@{n}", interval.replace("N", n)) for n in sorted(counts, key=int)),
        ("locked, RT@1", "{locked/rt|-:.3f} [{locked/low:.3f}, {locked/high:.3f}]"),
        ("residuals correlate", "{signatures/residuals/averaged_correlation|-:.2f}"),
        ("features follow the cover", "{signatures/features/cover|-:%0} %"),
    ]


TABLES = {
    "forged": Table("Forgeries accepted", _forged, _forged_columns),
    "genuine": Table("Genuine pictures accepted", _genuine, _genuine_columns),
    "errors": Table(
        "Where bit errors come from: means over the six distortions",
        _errors,
        (
            ("system", "{system}"),
            ("defence", "{defense}"),
            ("PSNR", "{clean/psnr:.1f} dB"),
            *((part, f"{{{part}|-:%2}} %") for part in ("payload", "hash", "message")),
        ),
    ),
    "rt": Table("Residual transferability and signatures", _rt, _rt_columns),
}
"""Every table by the name under which the docs ask for it."""

"""``coverlock demo``: a forgery that passes without CoverLock and fails with it."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from coverlock_bench.contact_sheet import draw_sheet
from coverlock_bench.measurement import images_option, watermark_option
from coverlock_bench.photos import Picture8, find_photos, load_squares
from coverlock_bench.settings import named_watermark
from coverlock_bench.trial import TRANSPLANT, forge
from coverlock_sdk import Key, Verdict, load_defense
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.errors import PictureError
from coverlock_sdk.locking.keys import KEY_BYTES
from coverlock_sdk.locking.locked_watermark import LockedWatermark

SIDE = 512
CLEAN = 42.0
"""Decibels at which nobody sees a mark on smooth water or sky, and every photo still verifies."""
IDENTIFIER = "demo-studio"
ARMS = ("none", "coverlock")


@dataclass(frozen=True)
class Arm:
    """What happened under one defence."""

    marked: list[Picture8]
    genuine: list[Verdict]
    forged: dict[tuple[int, int], Picture8]
    """By (source, target): the target with the residual of the source."""
    verdicts: dict[tuple[int, int], Verdict]


@click.command()
@images_option
@watermark_option
@click.option("--limit", default=6, show_default=True, help="How many photos to use at most.")
@click.option(
    "--psnr",
    type=click.FloatRange(20, 60),
    default=CLEAN,
    show_default=True,
    help="Decibels that marked photos have.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default=Path("coverlock-demo.png"),
    show_default=True,
    help="Where the picture goes.",
)
@json_option
def demo(
    images: Path | None, watermark: str, limit: int, psnr: float, out: Path, as_json: bool
) -> None:
    """Mark photos, paste each one's residual onto the others, and see what verification says.

    The lock has a key that is made for this run.
    """
    photos = find_photos(images)[:limit]
    if len(photos) < 2:
        raise PictureError("the demo needs at least two photos: one to steal from, one to forge")
    covers = load_squares(photos, SIDE)
    console = Console(stderr=True)
    system = named_watermark(watermark)
    key = Key(secrets.token_bytes(KEY_BYTES), id="demo")
    arms: dict[str, Arm] = {}
    with Progress(console=console, transient=True) as progress:
        for name in ARMS:
            options = {"key": key} if name == "coverlock" else {}
            protected = load_defense(name, psnr=psnr, **options).protect(system)
            assert isinstance(protected, LockedWatermark)
            task = progress.add_task(f"defence: {name}", total=len(covers) ** 2)
            arms[name] = _steal(protected, covers, lambda task=task: progress.advance(task))
    draw_sheet(out, covers, arms, [photo.stem for photo in photos])
    if as_json:
        click.echo(json.dumps(_document(arms, photos, watermark, out), indent=2))
    else:
        _print(arms, photos, watermark, out)


def _steal(protected: LockedWatermark, covers: list[Picture8], advance: Any) -> Arm:
    """Mark every photo, then forge every other one with its residual."""
    arm = Arm([], [], {}, {})
    for cover in covers:
        arm.marked.append(protected.embed(cover, IDENTIFIER))
        arm.genuine.append(protected.verify(arm.marked[-1], IDENTIFIER))
        advance()
    for source, target in permutations(range(len(covers)), 2):
        theft = forge(TRANSPLANT, [arm.marked[source]], [covers[source]], [covers[target]])
        [arm.forged[source, target]] = theft
        [arm.verdicts[source, target]] = protected.verify(theft, IDENTIFIER)
        advance()
    return arm


def _print(arms: dict[str, Arm], photos: list[Path], watermark: str, out: Path) -> None:
    console = Console()
    table = Table(title=f"watermark '{watermark}', false-positive rate 1e-06")
    for heading in ("photo", "genuine passes", "forgeries", "locked: genuine", "forgeries"):
        table.add_column(heading, overflow="fold")
    for source, photo in enumerate(photos):
        cells = [photo.stem]
        for name in ARMS:
            arm = arms[name]
            outcomes = [v for (s, _), v in arm.verdicts.items() if s == source]
            genuine = arm.genuine[source]
            passes = "[green]yes[/]" if genuine else "[red]no[/]"
            cells.append(f"{passes}, {genuine.matches}/{genuine.bits} bits")
            cells.append(f"{sum(v.accepted for v in outcomes)} of {len(outcomes)} pass")
        table.add_row(*cells)
    console.print(table)
    without, with_lock = (_success(arms[name]) for name in ARMS)
    console.print(
        f"forgeries that pass: [red]{without[0]} of {without[1]}[/] without CoverLock, "
        f"[green]{with_lock[0]} of {with_lock[1]}[/] with it and a key made for this run"
    )
    console.print(f"picture: {out}")


def _success(arm: Arm) -> tuple[int, int]:
    return sum(v.accepted for v in arm.verdicts.values()), len(arm.verdicts)


def _document(
    arms: dict[str, Arm], photos: list[Path], watermark: str, out: Path
) -> dict[str, Any]:
    return {
        "watermark": watermark,
        "photos": [photo.name for photo in photos],
        "picture": str(out),
        "defenses": {
            name: {
                "genuine": [verdict.to_dict() for verdict in arm.genuine],
                "forgeries": [
                    {"source": photos[s].stem, "target": photos[t].stem, **verdict.to_dict()}
                    for (s, t), verdict in arm.verdicts.items()
                ],
                "forgeries_accepted": _success(arm)[0],
                "forgeries_tried": _success(arm)[1],
            }
            for name, arm in arms.items()
        },
    }

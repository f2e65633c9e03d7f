"""``coverlock demo``: a forgery that passes without CoverLock and fails with it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import click
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.progress import Progress

from coverlock_bench.measurement import images_option, watermark_option
from coverlock_bench.photos import Picture8, find_photos, load_squares
from coverlock_bench.settings import named_watermark
from coverlock_bench.trial import TRANSPLANT, forge
from coverlock_sdk import Key, Verdict, load_defense
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.cli.output import answer_table
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.codecs import save_image
from coverlock_sdk.locking.embedding import MOST_PSNR
from coverlock_sdk.locking.keys import KEY_BYTES
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.locking.verdict import CHANCE

SIDE = 512
CLEAN = 42.0
"""Decibels at which nobody sees a mark on smooth water or sky, and every photo still verifies."""
IDENTIFIER = "demo-studio"
ARMS = ("none", "coverlock")

TILE = 256
GAP = 16
CAPTION = 78
AMPLIFY = 20
DETAIL = 128
"""Pixels of the residual that a tile shows, from the middle: shrunk, it would average out."""
FORGERIES = 2
GOOD, BAD = "#1b7837", "#b2182b"


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
    type=click.FloatRange(20, MOST_PSNR),
    default=CLEAN,
    show_default=True,
    help="Quality of marked photos, in decibels.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default=Path("coverlock-demo.png"),
    show_default=True,
    help="File for the picture.",
)
@json_option
def demo(
    images: Path | None, watermark: str, limit: int, psnr: float, out: Path, as_json: bool
) -> None:
    """Paste residuals onto other photos, with and without the lock.

    The lock uses a new key, made for this run.
    """
    photos = find_photos(images)[:limit]
    if len(photos) < 2:
        raise PictureError("the demo needs at least two photos: one to steal from, one to forge")
    covers = load_squares(photos, SIDE)
    console = Console(stderr=True)
    quiet = not console.is_terminal
    system = named_watermark(watermark)
    key = Key(secrets.token_bytes(KEY_BYTES), id="demo")
    arms: dict[str, Arm] = {}
    with Progress(console=console, transient=True, disable=quiet) as progress:
        for name in ARMS:
            options = {"key": key} if name == "coverlock" else {}
            protected = load_defense(name, psnr=psnr, **options).protect(system)
            assert isinstance(protected, LockedWatermark)
            task = progress.add_task(f"defence: {name}", total=len(covers) ** 2)
            arms[name] = _steal(protected, covers, lambda task=task: progress.advance(task))
    draw_sheet(out, covers, arms, [photo.stem for photo in photos])
    if not as_json:
        click.echo(
            f"'{watermark}' at {psnr:g} dB: every photo is marked, and its residual is pasted onto "
            f"the other {len(photos) - 1}"
        )
    headings = ("photo", "marked", "forgeries", "locked", "forgeries")
    document = _document(arms, photos, watermark, out)
    answer_table(document, as_json, headings, _rows(arms, photos))
    if not as_json:
        without, with_lock = (_success(arms[name]) for name in ARMS)
        click.echo(
            f"forgeries accepted: {without[0]} of {without[1]} without CoverLock, "
            f"{with_lock[0]} of {with_lock[1]} with it\npicture: {out}"
        )


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


def _rows(arms: dict[str, Arm], photos: list[Path]) -> Iterator[list[str]]:
    """A line of the table for each photo: with and without the lock, genuine and forged."""
    for source, photo in enumerate(photos):
        cells = [photo.stem]
        for arm in arms.values():
            genuine = arm.genuine[source]
            word = "[green]accepted[/]" if genuine else f"[red]{describe(genuine)}[/]"
            thefts = [v for (s, _), v in arm.verdicts.items() if s == source]
            cells += [word, _thefts(thefts)]
        yield cells


def describe(verdict: Verdict) -> str:
    """A verdict as people read it; bits only where they were found, since noise has some too."""
    if verdict:
        return f"accepted, {verdict.matches} of {verdict.bits} bits"
    if verdict.p_value > CHANCE:
        return f"rejected, no better than chance (p = {verdict.p_value:.1g})"
    return f"rejected (p = {verdict.p_value:.1g})"


def _thefts(verdicts: list[Verdict]) -> str:
    """How many forgeries were accepted, and if none was, how near the nearest came."""
    accepted = sum(verdict.accepted for verdict in verdicts)
    if accepted:
        return f"[red]{accepted} of {len(verdicts)} accepted[/]"
    nearest = min(verdict.p_value for verdict in verdicts)
    return f"[green]0 of {len(verdicts)}[/], p >= {nearest:.1g}"


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


# The picture


@dataclass(frozen=True)
class Tile:
    """A picture of the sheet, its caption, and what verification said of it."""

    pixels: Picture8
    caption: str
    verdict: Verdict | None = None
    genuine: bool = False


def draw_sheet(path: Path, covers: list[Picture8], arms: dict[str, Arm], names: list[str]) -> None:
    """One row per defence: the marked source, its residual, and forgeries with verdicts."""
    targets = range(1, min(1 + FORGERIES, len(covers)))
    columns = 2 + len(targets)
    width = GAP + columns * (TILE + GAP)
    height = GAP + len(arms) * (TILE + CAPTION + GAP)
    sheet = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(sheet)
    for row, (name, arm) in enumerate(arms.items()):
        top = GAP + row * (TILE + CAPTION + GAP)
        title = "without CoverLock" if name == "none" else "with CoverLock"
        middle = slice((SIDE - DETAIL) // 2, (SIDE + DETAIL) // 2)
        added = (arm.marked[0].astype(np.float32) - covers[0])[middle, middle]
        residual = np.clip(added * AMPLIFY + 127.5, 0, 255).astype(np.uint8)
        tiles = [
            Tile(arm.marked[0], f"marked, {title}", arm.genuine[0], genuine=True),
            Tile(residual, f"its residual, x{AMPLIFY} (detail)"),
        ]
        for target in targets:
            caption = f"pasted onto {names[target]}"
            tiles.append(Tile(arm.forged[0, target], caption, arm.verdicts[0, target]))
        for column, tile in enumerate(tiles):
            _draw_tile(sheet, draw, GAP + column * (TILE + GAP), top, tile)
    save_image(sheet, path)


def _draw_tile(
    sheet: Image.Image, draw: ImageDraw.ImageDraw, left: int, top: int, tile: Tile
) -> None:
    picture = Image.fromarray(tile.pixels).resize((TILE, TILE), Image.Resampling.LANCZOS)
    sheet.paste(picture, (left, top))
    draw.text((left, top + TILE + 6), tile.caption, fill="black", font=ImageFont.load_default(15))
    if tile.verdict is None:
        return
    text = f"{'genuine' if tile.genuine else 'forgery'} {describe(tile.verdict)}"
    colour = GOOD if tile.verdict.accepted == tile.genuine else BAD
    for number, line in enumerate(text.split(", ")):
        place = (left, top + TILE + 28 + 22 * number)
        draw.text(place, line, fill=colour, font=ImageFont.load_default(16))

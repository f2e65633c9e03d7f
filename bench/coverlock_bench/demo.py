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

from coverlock_bench.measurement import images_option, watermark_option
from coverlock_bench.photos import Picture8, find_photos, load_squares
from coverlock_bench.settings import named_watermark
from coverlock_bench.trial import TRANSPLANT, forge
from coverlock_sdk import CoverLock, Key, LockedWatermark, NoDefense, Verdict
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.cli.output import answer_table
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.codecs import save_image
from coverlock_sdk.locking.keys import KEY_BYTES
from coverlock_sdk.locking.verdict import CHANCE
from coverlock_sdk.progress import progress

PHOTOS = 6
SIDE = 512
CLEAN = 42.0
"""PSNR of the marks: faint on smooth water and sky, and all six photos still verify."""
IDENTIFIER = "demo-studio"

TILE = 256
GAP = 16
CAPTION = 78
AMPLIFY = 20
DETAIL = 128
"""A tile shows this many pixels from the middle of the residual: shrinking would average it out."""
FORGERIES = 2
GOOD, BAD = "#1b7837", "#b2182b"


@dataclass(frozen=True)
class Arm:
    """What happened under one defence."""

    title: str
    marked: list[Picture8]
    genuine: list[Verdict]
    forged: dict[tuple[int, int], Picture8]
    """By (source, target): the target with the residual of the source."""
    verdicts: dict[tuple[int, int], Verdict]

    @property
    def accepted(self) -> int:
        """How many forgeries verified."""
        return sum(verdict.accepted for verdict in self.verdicts.values())


@click.command()
@images_option
@watermark_option
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default=Path("coverlock-demo.png"),
    show_default=True,
    help="File to write the comparison picture to.",
)
@json_option
def demo(images: Path | None, watermark: str, out: Path, as_json: bool) -> None:
    """Mark photos and paste each residual onto the others, with and without the lock.

    The lock uses a new key, made for this run.
    """
    photos = find_photos(images)[:PHOTOS]
    if len(photos) < 2:
        raise PictureError("the demo needs at least two photos: one to steal from, one to forge")
    covers = load_squares(photos, SIDE)
    system = named_watermark(watermark)
    lock = CoverLock(key=Key(secrets.token_bytes(KEY_BYTES), id="demo"), psnr=CLEAN)
    arms = {
        "none": _steal(NoDefense(psnr=CLEAN).protect(system), covers, "without CoverLock"),
        "coverlock": _steal(lock.protect(system), covers, "with CoverLock"),
    }
    draw_sheet(out, covers, list(arms.values()), [photo.stem for photo in photos])
    if not as_json:
        click.echo(
            f"'{watermark}' at {CLEAN:g} dB: every photo is marked, and its residual is pasted "
            f"onto the other {len(photos) - 1}"
        )
    headings = ("photo", "marked", "forgeries", "locked", "forgeries")
    document = _document(arms, photos, watermark, out)
    answer_table(document, as_json, headings, _rows(list(arms.values()), photos))
    if not as_json:
        counted = [f"{a.accepted} of {len(a.verdicts)} {a.title}" for a in arms.values()]
        click.echo(f"forgeries accepted: {', '.join(counted)}\npicture: {out}")


def _steal(protected: LockedWatermark, covers: list[Picture8], title: str) -> Arm:
    """Mark every photo, then forge every other one with its residual."""
    arm = Arm(title, [], [], {}, {})
    for cover in progress(covers, f"marking, {title}"):
        arm.marked.append(protected.embed(cover, IDENTIFIER))
        arm.genuine.append(protected.verify(arm.marked[-1], IDENTIFIER))
    pairs = list(permutations(range(len(covers)), 2))
    for source, target in progress(pairs, f"forging, {title}"):
        theft = forge(TRANSPLANT, [arm.marked[source]], [covers[source]], [covers[target]])
        [arm.forged[source, target]] = theft
        [arm.verdicts[source, target]] = protected.verify(theft, IDENTIFIER)
    return arm


def _rows(arms: list[Arm], photos: list[Path]) -> Iterator[list[str]]:
    """A line of the table for each photo: with and without the lock, genuine and forged."""
    for source, photo in enumerate(photos):
        cells = [photo.stem]
        for arm in arms:
            genuine = arm.genuine[source]
            word = "[green]accepted[/]" if genuine else f"[red]{describe(genuine)}[/]"
            thefts = [v for (s, _), v in arm.verdicts.items() if s == source]
            cells += [word, _thefts(thefts)]
        yield cells


def describe(verdict: Verdict) -> str:
    """A verdict for people, with bits only if a mark was found, because noise matches some too."""
    if verdict:
        return f"accepted, {verdict.matches} of {verdict.bits} bits"
    if verdict.p_value > CHANCE:
        return f"rejected, no better than chance (p = {verdict.p_value:.1g})"
    return f"rejected (p = {verdict.p_value:.1g})"


def _thefts(verdicts: list[Verdict]) -> str:
    """How many forgeries were accepted, and if none were, how close the best one came."""
    accepted = sum(verdict.accepted for verdict in verdicts)
    if accepted:
        return f"[red]{accepted} of {len(verdicts)} accepted[/]"
    nearest = min(verdict.p_value for verdict in verdicts)
    return f"[green]0 of {len(verdicts)}[/], p >= {nearest:.1g}"


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
                "forgeries_accepted": arm.accepted,
                "forgeries_tried": len(arm.verdicts),
            }
            for name, arm in arms.items()
        },
    }


# The picture


def draw_sheet(path: Path, covers: list[Picture8], arms: list[Arm], names: list[str]) -> None:
    """One row per defence: the marked source, its residual, and forgeries with verdicts."""
    targets = range(1, min(1 + FORGERIES, len(covers)))
    width = GAP + (2 + len(targets)) * (TILE + GAP)
    height = GAP + len(arms) * (TILE + CAPTION + GAP)
    sheet = Image.new("RGB", (width, height), "white")
    middle = slice((SIDE - DETAIL) // 2, (SIDE + DETAIL) // 2)
    for row, arm in enumerate(arms):
        added = (arm.marked[0].astype(np.float32) - covers[0])[middle, middle]
        residual = np.clip(added * AMPLIFY + 127.5, 0, 255).astype(np.uint8)
        top = GAP + row * (TILE + CAPTION + GAP)
        _draw_tile(sheet, 0, top, arm.marked[0], f"marked, {arm.title}", arm.genuine[0], True)
        _draw_tile(sheet, 1, top, residual, f"its residual, x{AMPLIFY} (detail)")
        for target in targets:
            caption, verdict = f"pasted onto {names[target]}", arm.verdicts[0, target]
            _draw_tile(sheet, 1 + target, top, arm.forged[0, target], caption, verdict)
    save_image(sheet, path)


def _draw_tile(
    sheet: Image.Image,
    column: int,
    top: int,
    pixels: Picture8,
    caption: str,
    verdict: Verdict | None = None,
    genuine: bool = False,
) -> None:
    """A picture, its caption and its verdict."""
    left = GAP + column * (TILE + GAP)
    picture = Image.fromarray(pixels).resize((TILE, TILE), Image.Resampling.LANCZOS)
    sheet.paste(picture, (left, top))
    draw = ImageDraw.Draw(sheet)
    draw.text((left, top + TILE + 6), caption, fill="black", font=ImageFont.load_default(15))
    if verdict is None:
        return
    text = f"{'genuine' if genuine else 'forgery'} {describe(verdict)}"
    colour = GOOD if verdict.accepted == genuine else BAD
    for number, line in enumerate(text.split(", ")):
        place = (left, top + TILE + 28 + 22 * number)
        draw.text(place, line, fill=colour, font=ImageFont.load_default(16))

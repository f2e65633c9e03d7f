"""The demo's picture: one theft, drawn with Pillow alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from coverlock_bench.photos import Picture8
from coverlock_sdk.images.codecs import save_image

if TYPE_CHECKING:
    from coverlock_bench.demo import Arm
    from coverlock_sdk import Verdict

TILE = 256
GAP = 16
CAPTION = 56
AMPLIFY = 8
GOOD, BAD = "#1b7837", "#b2182b"


@dataclass(frozen=True)
class Tile:
    """A picture of the sheet, its caption, and what verification said of it."""

    pixels: Picture8
    caption: str
    verdict: Verdict | None = None
    genuine: bool = False


def draw_sheet(path: Path, covers: list[Picture8], arms: dict[str, Arm], names: list[str]) -> None:
    """One row a defence: the marked source, its residual, and three forgeries with verdicts."""
    targets = range(1, min(4, len(covers)))
    columns = 2 + len(targets)
    width = GAP + columns * (TILE + GAP)
    height = GAP + len(arms) * (TILE + CAPTION + GAP)
    sheet = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(sheet)
    for row, (name, arm) in enumerate(arms.items()):
        top = GAP + row * (TILE + CAPTION + GAP)
        title = "without CoverLock" if name == "none" else "with CoverLock"
        residual = (arm.marked[0].astype(np.float32) - covers[0]) * AMPLIFY + 127.5
        tiles = [
            Tile(arm.marked[0], f"{title}: {names[0]}, marked", arm.genuine[0], genuine=True),
            Tile(np.clip(residual, 0, 255).astype(np.uint8), f"its residual, x{AMPLIFY}"),
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
    word = "accepted" if tile.verdict else "rejected"
    who = "genuine" if tile.genuine else "forgery"
    text = f"{who} {word}, {tile.verdict.matches} of {tile.verdict.bits} bits"
    colour = GOOD if tile.verdict.accepted == tile.genuine else BAD
    draw.text((left, top + TILE + 28), text, fill=colour, font=ImageFont.load_default(16))

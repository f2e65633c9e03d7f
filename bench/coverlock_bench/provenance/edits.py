"""Edits of a part of a picture, and what a map of alterations makes of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from coverlock_bench.intervals import rate
from coverlock_bench.photos import Picture8
from coverlock_bench.provenance.sharing import stripped
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.progress import progress
from coverlock_sdk.provenance.alterations import CELLS, AlterationMap, alterations, thumbnail_of
from coverlock_sdk.training.kinds.catalogue import KINDS
from coverlock_sdk.training.kinds.kind import photos_from

AREAS = (0.02, 0.05, 0.10)
_LINE = (0.065, 0.4)  # height and width of a line of text on a card

Edit = Callable[[Picture8, Picture8, tuple[slice, slice], np.random.Generator], Picture8]
"""Changes the part of a picture that the slices name; another picture is at hand."""

Choose = Callable[[Picture8, np.random.Generator], tuple[slice, slice]]
"""Which part of a picture is edited."""


def _pasted(
    picture: Picture8, other: Picture8, part: tuple[slice, slice], rng: np.random.Generator
) -> Picture8:
    return other[part]


def _cloned(
    picture: Picture8, other: Picture8, part: tuple[slice, slice], rng: np.random.Generator
) -> Picture8:
    height, width = (each.stop - each.start for each in part)
    top = rng.integers(0, picture.shape[0] - height)
    left = rng.integers(0, picture.shape[1] - width)
    return picture[top : top + height, left : left + width]


def _blurred(
    picture: Picture8, other: Picture8, part: tuple[slice, slice], rng: np.random.Generator
) -> Picture8:
    sigma = picture.shape[1] / 40
    return np.asarray(Image.fromarray(picture).filter(ImageFilter.GaussianBlur(sigma)))[part]


EDITS: dict[str, Edit] = {
    "pasted from another photo": _pasted,
    "cloned from elsewhere in it": _cloned,
    "blurred away": _blurred,
}


def _retyped(
    picture: Picture8, other: Picture8, part: tuple[slice, slice], rng: np.random.Generator
) -> Picture8:
    """Another word in a line of text: what a forger changes on a card."""
    height, width = (each.stop - each.start for each in part)
    paper = tuple(int(value) for value in np.median(picture[part], axis=(0, 1)))
    line = Image.new("RGB", (width, height), paper)
    word = "".join(rng.choice(list("ABCDEFGHIKLMNOPRSTUVWZ"), 9))
    font = ImageFont.load_default(0.8 * height)
    ImageDraw.Draw(line).text((0, 0), word, (20, 20, 30), font)
    return np.asarray(line)


def edit_rates(photos: list[Path], seed: int, cards: int) -> dict[str, Any]:
    """Edits that are found where they are, and pictures without any that seem altered."""
    pictures = [read(photo).to_bytes() for photo in photos]
    figures: dict[str, Any] = {"photos": len(photos), "edits": {}, "unaltered": {}}
    drawn = [_card(number, photos) for number in range(cards)]
    figures["edits"]["a line of an ID card retyped"] = {
        f"{_LINE[0] * _LINE[1]:g}": _edited(drawn, _retyped, _line, seed, "cards")
    }
    for name, edit in EDITS.items():
        figures["edits"][name] = {
            f"{area:g}": _edited(pictures, edit, partial(_part, area), seed, f"{name}, {area:.0%}")
            for area in AREAS
        }
    ways: dict[str, Callable[..., Any]] = {"half size, JPEG 80": _shared, **EVALUATION}
    for name, distort in ways.items():
        figures["unaltered"][name] = _unaltered(pictures, distort, seed, name)
    return figures


def _unaltered(
    pictures: list[Picture8], distort: Callable[..., Any], seed: int, label: str
) -> dict[str, Any]:
    """Of pictures that nobody edited: can they be compared, and does a cell seem altered."""
    maps = [
        _compared(picture, distort(picture, np.random.default_rng([seed, row])))
        for row, picture in enumerate(progress(pictures, label))
    ]
    usable = [each for each in maps if each.comparable]
    alarms = sum(bool(each.altered.any()) for each in usable)
    return {
        "comparable": rate(len(usable), len(maps)),
        "false_alarms": rate(alarms, len(usable)) if usable else None,
    }


def _shared(picture: Picture8, rng: np.random.Generator) -> bytes:
    return stripped(picture)


def _edited(
    pictures: list[Picture8], edit: Edit, choose: Choose, seed: int, label: str
) -> dict[str, Any]:
    """Of edited and shared pictures: was the edit found, and was anything else."""
    found = elsewhere = 0
    covered: list[float] = []
    for row, picture in enumerate(progress(pictures, label)):
        rng = np.random.default_rng([seed, row])
        part = choose(picture, rng)
        changed = picture.copy()
        other = pictures[(row + 1) % len(pictures)]
        changed[part] = edit(picture, _fitted(other, picture), part, rng)
        altered = _compared(picture, stripped(changed)).altered
        inside, outside = _cells(picture, part)
        found += bool(altered[inside].any())
        elsewhere += bool(altered[outside].any())
        covered.append(float(altered[inside].mean()))
    return {
        "found": rate(found, len(pictures)),
        "elsewhere": rate(elsewhere, len(pictures)),
        "covered": float(np.mean(covered)),
    }


def _compared(signed: Picture8, seen: Any) -> AlterationMap:
    return alterations(thumbnail_of(read(signed)), read(seen))


def _card(number: int, photos: list[Path]) -> Picture8:
    """An ID card of a design that no hash was trained on."""
    return np.asarray(KINDS["ID cards"].draw("evaluation", number, 0, photos_from(photos)))


def _line(picture: Picture8, rng: np.random.Generator) -> tuple[slice, slice]:
    """Where a line of text may be: below the header, of the length of a name."""
    height, width = picture.shape[:2]
    tall, wide = round(_LINE[0] * height), round(_LINE[1] * width)
    top, left = rng.integers(height // 4, height - tall), rng.integers(0, width - wide)
    return slice(top, top + tall), slice(left, left + wide)


def _part(area: float, picture: Picture8, rng: np.random.Generator) -> tuple[slice, slice]:
    """A random rectangle of this share of a picture, up to twice as long as wide."""
    height, width = picture.shape[:2]
    tall = min(height - 2, round(np.sqrt(area * np.exp(rng.uniform(-0.7, 0.7))) * height))
    wide = min(width - 2, round(area * height * width / tall))
    top, left = rng.integers(0, height - tall), rng.integers(0, width - wide)
    return slice(top, top + tall), slice(left, left + wide)


def _cells(picture: Picture8, part: tuple[slice, slice]) -> tuple[Any, Any]:
    """The cells that lie in a part by half, or most of all, and those that it does not touch."""
    mask = np.zeros(picture.shape[:2], dtype=np.float32)
    mask[part] = 1
    shares = np.asarray(Image.fromarray(mask).resize((CELLS, CELLS), Image.Resampling.BOX))
    return shares >= min(0.5, shares.max()), shares == 0


def _fitted(other: Picture8, picture: Picture8) -> Picture8:
    return read(other).to_bytes(picture.shape[:2])

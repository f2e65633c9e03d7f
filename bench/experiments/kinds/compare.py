"""``python -m experiments kinds``: how far hashes tell pictures of one kind apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import click
import numpy as np

from coverlock_bench.hashes.codes import FramedView, agreement, codes_of, every_pair, views_of
from coverlock_bench.measurement import FOLDER, Measured, measurement, seed_option
from coverlock_bench.photos import Picture8, load_squares
from coverlock_bench.tables import Columns, Row, Table, below
from coverlock_sdk import ImageHash, load_hash
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.images.folders import pictures_in
from coverlock_sdk.loading import DEFAULT_HASH
from coverlock_sdk.progress import progress

SIDE = 512
DISTORTED = 8
"""Pictures of each kind that are distorted, to see how stable their codes are."""


def groups_in(folder: Path) -> dict[str, list[Path]]:
    """The pictures in each subfolder of ``folder``, by its name; a group has at least two."""
    groups = {path.name: pictures_in(path) for path in sorted(folder.iterdir()) if path.is_dir()}
    small = [name for name, files in groups.items() if len(files) < 2]
    if small or not groups:
        where = f"the subfolder '{small[0]}' of {folder} has one" if small else f"{folder} has none"
        raise PictureError(f"{where}: give subfolders of at least two pictures that are alike")
    return groups


def kind_report(
    hashes: Mapping[str, ImageHash], folder: Path, seed: int
) -> dict[str, dict[str, Any]]:
    """Agreement and errors of each hash on each subfolder, which holds pictures of one kind."""
    groups = groups_in(folder)
    return {
        name: {
            kind: _figures(image_hash, load_squares(files, SIDE), seed)
            for kind, files in progress(list(groups.items()), f"{name}, kinds")
        }
        for name, image_hash in hashes.items()
    }


def _figures(image_hash: ImageHash, squares: Sequence[Picture8], seed: int) -> dict[str, Any]:
    """How far different pictures agree, and the share of bits that each distortion flips."""
    codes = codes_of(image_hash, [FramedView(square) for square in squares])
    found = agreement(codes, every_pair(len(codes)))
    flipped = []
    for index, square in enumerate(squares[:DISTORTED]):
        seen = codes_of(image_hash, views_of(square, [seed, index], EVALUATION))
        flipped.append((seen[1:] != seen[:1]).mean(axis=1))
    errors = dict(zip(EVALUATION, map(float, np.mean(flipped, axis=0)), strict=True))
    return {name: found[name] for name in ("pairs", "mean", "accepted")} | {"bit_error": errors}


def _by_kind(figures: Any) -> Iterator[Row]:
    """Each kind with the figures of every hash."""
    by_hash = figures
    for kind in next(iter(by_hash.values()), {}):
        row = {name: {**kinds[kind]} for name, kinds in by_hash.items()}
        for of_hash in row.values():
            of_hash["bit_error_mean"] = fmean(of_hash["bit_error"].values())
        yield {"kind": kind, **row}


def _kind_columns(figures: Any) -> Columns:
    columns = [
        ("agreement", "{mean:.3f}"),
        ("accepted at 64 bits", "{accepted/64:%1} %"),
        ("bit error (crop)", "{bit_error_mean:%1} % ({bit_error/crop:%1} %)"),
    ]
    by_hash = [(f"{name}: {what}", below(name, cell)) for name in figures for what, cell in columns]
    return [("kind", "{kind}"), *by_hash]


KINDS = Table("Different pictures of one kind, by hash", _by_kind, _kind_columns)


@measurement(
    "experiments kinds",
    click.argument("folder", type=FOLDER),
    click.option("--hash", "hashes", multiple=True, default=(DEFAULT_HASH,), show_default=True),
    seed_option,
)
def kinds_command(folder: Path, hashes: tuple[str, ...], seed: int) -> Measured:
    """Compare the pictures of each subfolder of FOLDER, as 'draw' makes them, by every hash."""
    figures = kind_report({name: load_hash(name) for name in hashes}, folder, seed)
    return Measured({"kinds": folder.name, "seed": seed}, figures, KINDS.markdown(figures))

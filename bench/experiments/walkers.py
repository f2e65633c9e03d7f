"""Walkers: forgers who ask a service, see only accepted or rejected, and pay for rejections.

A walker starts where the code of his picture is that of a released one, with its payload, and walks
toward his own picture: the change shrinks until a picture is rejected, pictures around that place
tell where the boundary runs, and the walk goes on beside it. The study grants him the code's own
coordinates, in which the norm of a change is what it does to pixels, the exact payload, and answers
about the whole picture alone. Accepted pictures cost nothing, so a patient walker asks from well
inside, where few are rejected and each tells more.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np

from coverlock_bench.intervals import rate
from coverlock_bench.photos import find_photos, load_squares
from coverlock_bench.results import write_result
from coverlock_sdk.arrays import Floats
from coverlock_sdk.frames import WHOLE
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_sdk.loading import load_watermark
from coverlock_sdk.locking.readings import Reading
from coverlock_sdk.locking.registry import LEAST_LIKENESS
from coverlock_sdk.locking.secret_rotations import LongCode
from coverlock_sdk.locking.verdict import Verdict
from coverlock_sdk.progress import progress
from experiments.forger_edits import code_of
from experiments.forgers import SIDE, Released, Vendor

REJECTIONS = (0, 100, 200, 400, 1300)
"""The default budget of an identifier in 30 days, the most that one month can see of it, and what
a service without budgets gives away in a day."""
PSNR = 28.0
"""In decibels: a change that is smaller still leaves the walker his own picture."""
WALKS = {"at the boundary": 0.5, "patient": 0.05}
"""Walkers, and the share of their pictures that they let be rejected."""
ROUND = 12
"""Rejections from which one look at the boundary is made."""
MOST_ASKED = 30_000
VALUES = 3 * 128 * 128

Accepts = Callable[[Floats], bool]


class RejectedTooOftenError(Exception):
    """The budget is spent."""


@dataclass
class CountingService:
    """Answers about changes of one picture, and counts what it rejects."""

    accepts: Accepts
    most: int
    asked: int = 0
    rejected: int = 0

    def __call__(self, change: Floats) -> bool:
        """Whether a picture with this change is accepted."""
        self.asked += 1
        if self.accepts(change):
            return True
        self.rejected += 1
        if self.rejected >= self.most or self.asked >= MOST_ASKED:
            raise RejectedTooOftenError
        return False


def walk(accepts: Accepts, start: Floats, share: float, seed: int) -> list[tuple[int, float]]:
    """The norms of the smallest accepted changes, each with the rejections spent before it."""
    rng = np.random.default_rng(seed)
    service = CountingService(accepts, max(REJECTIONS))
    reached = [(0, float(np.linalg.norm(start)))]
    place, width = start, 0.1 * float(np.linalg.norm(start))

    def shrunk(change: Floats) -> Floats:
        step = 0.25
        while step > 0.01:
            if service(change * (1 - step)):
                change = change * (1 - step)
            else:
                step /= 2
        return change

    try:
        for number in range(1, 10**6):
            place = shrunk(place)
            if np.linalg.norm(place) < reached[-1][1]:
                reached.append((service.rejected, float(np.linalg.norm(place))))
            outward = np.zeros_like(place)
            outside = 0
            while outside < ROUND:
                probe = rng.standard_normal(len(place)) * width / len(place) ** 0.5
                if service(place + probe):
                    width *= 1.02 ** (share / (1 - share))
                else:
                    width /= 1.02
                    outward += probe
                    outside += 1
            outward /= np.linalg.norm(outward)
            step = float(np.linalg.norm(place)) / number**0.5
            while step > 0.01 * np.linalg.norm(place) and not service(place - step * outward):
                step /= 2
            beside = place - step * outward
            place = beside if step > 0.01 * np.linalg.norm(place) else place
    except RejectedTooOftenError:
        pass
    return reached


def judged(
    vendor: Vendor, code: OctaveCode, released: Released, own: Floats, remembered: bool
) -> tuple[Any, Floats]:
    """How the lock answers about a change of the picture with code ``own``, and where to start."""
    lock, terms = vendor.lock, vendor.terms
    [shown] = terms.code_map.seen(released.code[None])
    salt = int(np.argmax((shown == released.margins).all(axis=1)))
    directions, tries = terms.code_map.directions(salt), float(terms.code_map.tries(shown)[salt])
    odds = np.where(released.payload[: lock.bits], 8.0, -8.0)
    root = np.linalg.cholesky(code.gram)
    long = LongCode.of(terms.key, code.bands)
    record = long.bits(released.code[None])

    def accepts(change: Floats) -> bool:
        moved = (own + root @ change).astype(np.float32)
        seen = moved @ directions
        bits = lock.code_of(seen, terms, salt) ^ terms.message
        reading = Reading.of(odds, seen, bits, code, terms.key, WHOLE, tries)
        if not Verdict.on(reading, lock.fpr, lock.rule, lock.floors, 1):
            return False
        return not remembered or bool(long.likeness(moved[None], record).min() >= LEAST_LIKENESS)

    return accepts, np.linalg.solve(root, (released.code - own).astype(np.float64))


def decibels(norm: float) -> float:
    """The PSNR of a change with a norm."""
    return float(-10 * np.log10(norm**2 / VALUES))


@click.command("walkers")
@click.option("-w", "--watermark", default="mbrs", show_default=True)
@click.option("--images", type=click.Path(exists=True, path_type=Path))
@click.option("--walks", default=20, show_default=True, help="Pictures that are forged.")
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True)
def walkers(watermark: str, images: Path | None, walks: int, out: Path) -> None:
    """Forge by asking: how near walkers come for how many rejections."""
    pictures = load_squares(find_photos(images)[: 2 * walks], SIDE)
    with tempfile.TemporaryDirectory() as folder:
        code, registry = OctaveCode(), Path(folder) / "registry.db"
        vendor = Vendor(load_watermark(watermark), code, bytes(range(32)), registry)
        pairs = [
            (vendor.release(source), code_of(code, own))
            for source, own in zip(pictures[:walks], pictures[walks:], strict=True)
        ]
    figures: dict[str, Any] = {}
    for remembered in (False, True):
        for name, share in WALKS.items():
            found: list[list[tuple[int, float]]] = []
            for released, own in progress(pairs, f"{name}, registry {remembered}"):
                accepts, start = judged(vendor, code, released, own.astype(np.float64), remembered)
                found.append(walk(accepts, start, share, len(found)))
            figures[f"{name}{', registry' if remembered else ''}"] = {
                str(most): _reached(found, most) for most in REJECTIONS
            }
    write_result(out, "experiments walkers", {"watermark": watermark, "walks": walks}, figures)
    for name, cells in figures.items():
        for most, cell in cells.items():
            click.echo(f"{name}, {most} rejections: {cell}")


def _reached(found: list[list[tuple[int, float]]], most: int) -> dict[str, Any]:
    best = [decibels(min(norm for spent, norm in each if spent <= most)) for each in found]
    forged = sum(value >= PSNR for value in best)
    return {"forged": rate(forged, len(best)), "median_psnr": round(median(best), 1)}

"""RT@s of watermarks, with their quality, robustness and signatures (the paper's table 4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np

from coverlock_bench.auditing.assessment import Assessment
from coverlock_bench.auditing.collection import collect
from coverlock_bench.auditing.presets import Plan
from coverlock_bench.ledger import Ledger, Session, resumable
from coverlock_bench.measurement import (
    FOLDER,
    Measured,
    measurement,
    seed_option,
    watermarks_option,
    work_option,
)
from coverlock_bench.photos import Picture8, to_8_bit, to_float
from coverlock_bench.rt import COUNTS, MESSAGES, transferability_curve
from coverlock_bench.settings import named_watermark
from coverlock_bench.tables import Columns, Row, Table, nested
from coverlock_bench.trial import distorted
from coverlock_sdk import Watermark
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.plugin_calls import decode, embed, working_size
from experiments import paper

READ = 100
"""Pictures that are marked to see how many bits are read in them."""
TARGETS = 100


def transferability(
    watermark: Watermark, folder: Path, counts: tuple[int, ...], seed: int, session: Session
) -> dict[str, Any]:
    """RT@s for every s that there are pictures for, and what the mark is worth by itself."""
    side = working_size(watermark)[0]
    photos = collect(folder, max(counts) + TARGETS, side=side, seed=seed)
    targets = min(TARGETS, len(photos.pictures) // 2)
    curve = transferability_curve(
        watermark, photos.pictures, counts, targets, MESSAGES, seed, session
    )
    plan = Plan.of("standard")
    return {
        "bits": watermark.bits,
        "side": side,
        "pictures": len(photos.pictures),
        **_quality(watermark, photos.pictures[:READ], seed),
        "rt": {str(point.sources): asdict(point) for point in curve.points},
        "signatures": Assessment(watermark, plan, session).signatures(photos),
    }


def _quality(watermark: Watermark, covers: list[Picture8], seed: int) -> dict[str, Any]:
    """PSNR, and bits read at the watermark's own size as marked and under the six distortions."""
    rng = np.random.default_rng(seed)
    right: dict[str, list[float]] = {name: [] for name in ("clean", *EVALUATION)}
    psnr = []
    for cover in covers:
        payload = rng.integers(0, 2, watermark.bits, dtype=np.uint8)
        marked = to_8_bit(embed(watermark, to_float(cover)[None], payload[None])[0])
        psnr.append(read(cover).psnr(read(marked)))
        seen = {n: distorted(marked, n, change, rng) for n, change in EVALUATION.items()}
        for name, picture in {"clean": marked, **seen}.items():
            view = read(picture).view(working_size(watermark))
            right[name].append(float(((decode(watermark, view[None])[0] > 0) == payload).mean()))
    accuracy = {name: float(np.mean(shares)) for name, shares in right.items()}
    return {"psnr": float(np.mean(psnr)), "bit_accuracy": accuracy}


def _columns(figures: Any) -> Columns:
    counts = {count for row in figures.values() for count in row["rt"]}
    interval = "{rt/N/rt|-:.3f} [{rt/N/low:.3f}, {rt/N/high:.3f}]"
    return [
        ("watermark", "{watermark}"),
        ("bits", "{bits} at {side} px"),
        ("PSNR", "{psnr:.1f} dB"),
        *((name, f"{{bit_accuracy/{name}:%1}} %") for name in ("clean", *EVALUATION)),
        *((f"RT@{n}", interval.replace("N", n)) for n in sorted(counts, key=int)),
        ("paper's RT@100, at full size", "{paper/100|-:.3f}"),
        ("mean residuals correlate", "{signatures/residuals/averaged_correlation|-:.2f}"),
        ("features follow the cover", "{signatures/features/cover|-:%0} %"),
    ]


def _rows(figures: Any) -> Iterator[Row]:
    for row in nested("watermark")(figures):
        system = row["watermark"].split("-")[0]
        yield {**row, "paper": paper.RT.get(system, {})}


TRANSFERABILITY = Table("Quality, bits read, RT@s and signatures", _rows, _columns)


@measurement(
    "experiments transferability",
    watermarks_option,
    seed_option,
    click.option(
        "--images",
        type=FOLDER,
        required=True,
        help="Photos that no training has seen; 200 for RT@100, 1,100 for RT@1000.",
    ),
    click.option(
        "--sources",
        "counts",
        type=click.IntRange(1),
        multiple=True,
        default=COUNTS,
        show_default=True,
        help="Pictures that a residual is averaged over; may be repeated.",
    ),
    work_option("transferability"),
)
def transferability_command(
    watermarks: tuple[str, ...], images: Path, counts: tuple[int, ...], seed: int, work: Path
) -> Iterator[Measured]:
    """Measure RT@s of watermarks, their quality, and the signatures of their residuals."""
    config = {"images": images.name, "sources": list(counts), "seed": seed}
    figures: dict[str, Any] = {}
    with resumable(work):
        session = Session(Ledger(work), quiet=False)
        for name in watermarks:
            watermark = named_watermark(name)
            figures[name] = transferability(watermark, images, counts, seed, session)
            yield Measured(config, figures, TRANSFERABILITY.markdown(figures))

"""Exported graphs of several hashes: how well they agree with the SDK, and what they cost.

Each hash is exported with the watermark, and the gate of the export compares every precision with
the SDK on photos. Then all graphs take turns in one run, so that a busy machine slows all alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from coverlock_bench.hashes.weights import weights_of
from coverlock_bench.latency.command import LATENCY, run_suite
from coverlock_bench.latency.subjects import Subject
from coverlock_bench.measurement import Measured, images_option, measurement, number_option
from coverlock_bench.photos import find_photos, jpeg_files
from coverlock_bench.tables import Row, Table
from coverlock_export.exporting import PRECISIONS, Request, export_bundle
from coverlock_sdk import wrap
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.loading import load_hash
from coverlock_sdk.locking.keys import generate_key

SIDE = 512


def _agreements(figures: Any) -> Iterator[Row]:
    """Every graph of every subject."""
    for name, subject in figures["subjects"].items():
        for precision in PRECISIONS:
            if precision in subject["parity"]:
                yield {"subject": name, "precision": precision, **subject["parity"][precision]}


PARITY = Table(
    "Bits and verdicts in which an exported graph agrees with the SDK",
    _agreements,
    (
        ("watermark+hash", "{subject}"),
        ("graph", "{precision}"),
        ("photos", "{photos}"),
        ("bits of hash and marks", "{bits:%3} %"),
        ("of the hash", "{hash_bits:%3} %"),
        ("of marks", "{decoder_bits:%3} %"),
        ("verdicts", "{verdicts:%1} %"),
    ),
)


@measurement(
    "experiments deployed",
    click.option("-w", "--watermark", default="mbrs", show_default=True),
    click.option("--hash", "hashes", multiple=True, default=("octave", "dinov2-s")),
    images_option,
    number_option("--photos", 100, "Photos on which graphs are compared with the SDK."),
    click.option("--batch", "batches", multiple=True, type=int, default=(1, 8)),
    number_option("--turns", 5, "Passes over all cases."),
    click.option(
        "--work", type=click.Path(file_okay=False, path_type=Path), default="runs/deployed"
    ),
)
def deployed(
    watermark: str,
    hashes: tuple[str, ...],
    images: Path | None,
    photos: int,
    batches: tuple[int, ...],
    turns: int,
    work: Path,
) -> Measured:
    """Compare exported graphs with the SDK, and time them, with one hash beside another."""
    key, found = work / "key.json", find_photos(images)
    if not key.exists():
        work.mkdir(parents=True, exist_ok=True)
        generate_key(key)
    jpegs = jpeg_files(found, max(batches), SIDE)
    subjects, weights = [], {}
    for name in hashes:
        image_hash, folder = load_hash(name), work / name
        lock, weights[name] = wrap(watermark, key=key, hash=image_hash), weights_of(image_hash)
        if not folder.exists():
            export_bundle(Request(lock, found, count=photos), folder)
        subjects.append(Subject(Bundle.open(folder), lock, jpegs))
    figures = run_suite(subjects, batches, PRECISIONS, turns, threads=1, clock="cpu")
    for subject in subjects:
        parity = subject.bundle.manifest.parity["graphs"]
        figures["subjects"][subject.name]["parity"] = parity
    config = {
        "watermark": watermark,
        "hashes": list(hashes),
        "weights": weights,
        "photos": photos,
        "side": SIDE,
        "batches": list(batches),
        "turns": turns,
    }
    notes = [f"left out: {name}, because {why}" for name, why in figures["left_out"].items()]
    text = f"{PARITY.markdown(figures)}\n\n{LATENCY.markdown(figures)}"
    return Measured(config, figures, text, tuple(notes))

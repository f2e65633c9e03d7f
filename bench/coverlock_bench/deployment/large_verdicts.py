"""Whether decoding large JPEG files at a fraction of their size changes verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from coverlock_bench.deployment.throughput import IDENTIFIER, Pixels, as_camera, jpeg
from coverlock_sdk.bundles.trust import ANYONE
from coverlock_sdk.embedder.embedder import Embedder
from coverlock_sdk.images.conversion import read
from coverlock_sdk.verifier.verifier import Verifier

Row = dict[str, Any]

OTHER = "order-4712"
"""An identifier that no picture carries."""

MEGAPIXELS = (3, 3, 6, 12, 3, 6, 12, 24, 6, 48)
"""Sizes to which small photos are enlarged, over and over."""

FULL_SIZE = 2_000_000
"""Pixels from which a photo is taken as it is."""

QUALITIES = (92, 75, 60)
"""Of the JPEG files, over and over; lower ones bring marks closer to their limit."""


def large_verdicts(
    bundle: Path, photos: Sequence[Path], count: int, seed: int, work: Path
) -> Iterator[list[Row]]:
    """A row for each marked picture; ``work`` keeps them, and an interrupted run goes on there."""
    rows = [json.loads(line) for line in work.read_text().splitlines()] if work.exists() else []
    work.parent.mkdir(parents=True, exist_ok=True)
    embedder = Embedder.open(bundle, threads=1, trust=ANYONE)
    with Verifier.open(bundle, "cpu", threads=1, max_delay_ms=0, trust=ANYONE) as verifier:
        for number in range(len(rows), count):
            pixels, enlarged = _picture(photos, number, seed)
            quality = QUALITIES[number % len(QUALITIES)]
            content = jpeg(embedder.embed(pixels, IDENTIFIER), quality)
            row = {
                "megapixels": round(pixels.shape[0] * pixels.shape[1] / 1e6),
                "enlarged": enlarged,
                "quality": quality,
                **_compared(verifier, content),
            }
            with work.open("a") as file:
                file.write(json.dumps(row) + "\n")
            rows.append(row)
            yield rows
    yield rows


def summary(rows: Sequence[Row]) -> list[Row]:
    """The rows of each size, counted; photos at their own size apart from enlarged ones."""
    kinds = sorted({(row["enlarged"], row["megapixels"]) for row in rows})
    return [
        {"enlarged": enlarged, "megapixels": megapixels, **_counted(rows, enlarged, megapixels)}
        for enlarged, megapixels in kinds
    ]


def _counted(rows: Sequence[Row], enlarged: bool, megapixels: int) -> Row:
    alike = [r for r in rows if (r["enlarged"], r["megapixels"]) == (enlarged, megapixels)]
    names = ("verdicts", "equal", "accepted", "decoded_twice", "bits")
    return {"pictures": len(alike), **{name: sum(row[name] for row in alike) for name in names}}


def _picture(photos: Sequence[Path], number: int, seed: int) -> tuple[Pixels, bool]:
    """A large picture, and whether it is a photo that was enlarged."""
    photo = photos[number % len(photos)]
    with Image.open(photo) as image:
        width, height = image.size
        if width * height >= FULL_SIZE:
            return np.asarray(image.convert("RGB")), False
    megapixels = MEGAPIXELS[number % len(MEGAPIXELS)]
    height = round((megapixels * 1e6 * 3 / 4) ** 0.5)
    rng = np.random.default_rng((seed, number))
    return as_camera(photo, (height * 4 // 3, height), rng), True


def _compared(verifier: Verifier, content: bytes) -> Row:
    """Verdicts on a file against those on all of its pixels, for its message and for another."""
    whole, seen = read(content), read(content, seen_at=verifier.bundle.manifest.graph_size)
    found: Row = dict.fromkeys(("verdicts", "equal", "accepted", "decoded_twice", "bits"), 0)
    for message in (IDENTIFIER, OTHER):
        exact = verifier.verify(whole.pixels, message)
        fast = verifier.verify(content, message)
        found["verdicts"] += 1
        found["equal"] += int(exact.accepted == fast.accepted)
        found["accepted"] += int(exact.accepted)
        found["decoded_twice"] += int(verifier.verify(seen.pixels, message).is_close)
        found["bits"] += abs(exact.matches - fast.matches)
    return found

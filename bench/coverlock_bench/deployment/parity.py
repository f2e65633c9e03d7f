"""Exported graphs against the SDK, on as many photos as one has time for."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_bench.settings import named_watermark
from coverlock_export.exporting import LEAST_PHOTOS, Request, export_bundle
from coverlock_export.parity import Answers, Run, Trial
from coverlock_sdk.locking.coverlock import wrap
from coverlock_sdk.verifier.onnx_runtime import open_cpu

CHUNK = 20
"""Photos between two reports; an even number, since every other photo is marked."""


def parity(
    watermark: str,
    image_hash: str,
    photos: list[Path],
    precisions: tuple[str, ...],
    seed: int,
) -> Iterator[dict[str, Any]]:
    """Export ``watermark`` and compare it photo by photo; the figures of all photos so far."""
    lock = wrap(named_watermark(watermark), hash=image_hash)
    with tempfile.TemporaryDirectory() as folder:
        # The first photos serve the export's own gate; the figures here are on the others.
        wanted = tuple({"fp32", *precisions})
        request = Request(lock, photos[:LEAST_PHOTOS], wanted, count=2, seed=seed)
        bundle = export_bundle(request, Path(folder) / "bundle", lambda *_: lambda: None)
        runs: dict[str, Run] = {"sdk": lock.logits}
        runs |= {precision: open_cpu(bundle, precision, None).run for precision in precisions}
    answers: dict[str, list[Answers]] = {name: [] for name in runs}
    for start in range(LEAST_PHOTOS, len(photos), CHUNK):
        trial = Trial.prepare(lock, photos[start : start + CHUNK], seed + start, lambda: None)
        for name, run in runs.items():
            answers[name].append(trial.run(run, lambda: None))
        reference = _joined(answers["sdk"])
        yield {name: _joined(answers[name]).compared(reference) for name in precisions}


def _joined(parts: list[Answers]) -> Answers:
    return Answers(
        np.concatenate([part.decoded for part in parts]),
        np.concatenate([part.codes for part in parts]),
        np.concatenate([part.accepted for part in parts]),
    )

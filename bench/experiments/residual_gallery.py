"""Residuals to look at: their averages over covers, and what each attack lifts (figures 2a, 4a).

The first picture that is robbed comes with the package's demo, so that no residual in a result
file shows the outlines of somebody's photo; the others only enter averages.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from coverlock_bench.auditing.assessment import ABSENT, NONE
from coverlock_bench.auditing.collection import collect
from coverlock_bench.auditing.exhibits import amplified
from coverlock_bench.auditing.signatures import residual_patterns
from coverlock_bench.auditing.trials import Division, Trials
from coverlock_bench.ledger import Session
from coverlock_bench.photos import find_photos, load_squares
from coverlock_bench.settings import Setting, named_watermark
from coverlock_sdk import Watermark
from coverlock_sdk.arrays import Images
from coverlock_sdk.locking.coverlock import DEFAULT_FPR
from coverlock_sdk.plugin_calls import working_size
from coverlock_sdk.progress import progress

ATTACKS = ("gt", "gt:sources=100", "averaging", "wmforger")
"""The four columns of the paper's figure."""
SOURCES = 100
TILE = 64
"""Pixels of a residual that are shown, from its middle and at its own scale."""
SHADES = 32
"""Colours of a tile: enough to see a pattern, and a tenth of the bytes."""


def residual_gallery(names: Sequence[str], folder: Path, seed: int) -> dict[str, Any]:
    """For each watermark the mean residuals of two sets of covers, and what the attacks lift."""
    return {
        name: _residuals(named_watermark(name), folder, seed)
        for name in progress(names, "residuals")
    }


def _residuals(watermark: Watermark, folder: Path, seed: int) -> dict[str, Any]:
    side = working_size(watermark)[0]
    covers = collect(folder, SOURCES, naturals=SOURCES, side=side, seed=seed)
    patterns = residual_patterns(watermark, covers.pictures, seed=seed)
    own = load_squares(find_photos(None)[:1], side)
    robbed = [*own, *covers.pictures][:SOURCES]
    division = Division(robbed, covers.naturals[:1], seed, covers.naturals)
    trials = Trials(watermark, NONE, DEFAULT_FPR, Session())
    return {
        "bits": watermark.bits,
        "side": side,
        "correlation": patterns.averaged_correlation,
        "averaged": [_tile(residual) for residual in patterns.averaged],
        "lifted": {attack: _lifted(trials, attack, division) for attack in ATTACKS},
    }


def _lifted(trials: Trials, attack: str, division: Division) -> dict[str, Any]:
    try:
        return _tile(trials.lift(Setting.parse(attack), division))
    except ABSENT as error:
        return {"not_measured": str(error)}


def _tile(residual: Images) -> dict[str, Any]:
    """The middle of a residual as a PNG file in base 64, and how much it was amplified."""
    top, left = ((length - TILE) // 2 for length in residual.shape[1:])
    pixels, gain = amplified(residual[:, top : top + TILE, left : left + TILE])
    file = io.BytesIO()
    Image.fromarray(pixels).quantize(SHADES).save(file, format="PNG", optimize=True)
    return {"gain": gain, "png": base64.b64encode(file.getvalue()).decode()}

"""The paper's architectural interventions (section 3.3, appendix E.2) on networks trained here.

Each family is trained distortion-free under settings that are equal within it; only the switch
differs. The networks are narrower and the pictures smaller than the published ones, so RT is to be
compared between variants, not with the paper's digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from coverlock_bench.measurement import Measured, measurement
from coverlock_bench.photos import find_photos
from coverlock_sdk.errors import CoverLockError
from coverlock_training.watermarks.trainer import WatermarkRecipe
from experiments.tables import INTERVENTIONS
from experiments.trained import Variant, describe, measure, training_options

_HIDDEN = {"bits": 16, "size": 64, "channels": 32}
_HIDDEN_RECIPE = WatermarkRecipe(image_weight=0.7, steps=1500, message_first=500, decay=500)
_MBRS = {"bits": 16, "size": 64, "channels": 16, "blocks": 2}
_MBRS_RECIPE = WatermarkRecipe(
    message_weight=10,
    rate=3e-3,
    batch=8,
    steps=1000,
    message_first=200,
    early_fidelity=0.1,
    decay=300,
)
_CIN = {"bits": 16, "size": 64, "couplings": 1, "growth": 8, "jpeg_channels": 0}
_CIN_RECIPE = replace(
    _MBRS_RECIPE, image_weight=0.3, rate=1e-3, steps=500, message_first=100, decay=150
)
_CIN_BROADCAST_RECIPE = replace(_CIN_RECIPE, rate=2e-3)
"""The one departure from equal settings: at this rate the original CIN learns nothing."""
_RIVAGAN = {"bits": 32, "size": 64, "kernel": 7}
_RIVAGAN_RECIPE = WatermarkRecipe(
    message_loss="bce",
    image_weight=0.0,
    batch=12,
    inverted_twins=True,
    steps=1500,
    message_first=300,
    decay=500,
)

VARIANTS: tuple[Variant, ...] = (
    Variant("hidden", "hidden", _HIDDEN, _HIDDEN_RECIPE,
            {"accuracy": 0.998, "psnr": 28.23, "rt": {"1": 0.249, "10": 0.261, "100": 0.214}}),
    Variant("hidden-without-broadcast", "hidden", {**_HIDDEN, "broadcast": False}, _HIDDEN_RECIPE,
            {"rt": {"100": 0.228}}),
    Variant("hidden-without-gap", "hidden", {**_HIDDEN, "gap": False}, _HIDDEN_RECIPE,
            {"rt": {"100": 0.313}}),
    Variant("hidden-without-both", "hidden", {**_HIDDEN, "broadcast": False, "gap": False},
            _HIDDEN_RECIPE,
            {"accuracy": 1.0, "psnr": 41.47, "rt": {"1": 0.909, "10": 0.977, "100": 0.985}}),
    Variant("mbrs", "mbrs", _MBRS, _MBRS_RECIPE,
            {"accuracy": 1.0, "psnr": 42.32, "rt": {"1": 0.987, "10": 0.993, "100": 0.995}}),
    Variant("mbrs-with-broadcast-gap", "mbrs", {**_MBRS, "broadcast_gap": True}, _MBRS_RECIPE,
            {"accuracy": 0.964, "psnr": 27.07, "rt": {"1": 0.210, "10": 0.124, "100": 0.098}}),
    Variant("cin", "cin", _CIN, _CIN_RECIPE,
            {"accuracy": 1.0, "psnr": 41.55, "rt": {"1": 1.0, "10": 1.0, "100": 1.0}}),
    Variant("cin-with-broadcast-gap", "cin", {**_CIN, "broadcast_gap": True},
            _CIN_BROADCAST_RECIPE,
            {"accuracy": 0.934, "psnr": 21.71, "rt": {"1": 0.158, "10": 0.103, "100": 0.091}}),
    Variant("rivagan", "rivagan", _RIVAGAN, _RIVAGAN_RECIPE,
            {"accuracy": 0.977, "psnr": 42.12, "rt": {"1": 0.071, "10": 0.073, "100": 0.077}}),
    Variant("rivagan-with-fixed-attention", "rivagan", {**_RIVAGAN, "fixed_attention": True},
            _RIVAGAN_RECIPE,
            {"accuracy": 0.982, "psnr": 42.11, "rt": {"1": 0.922, "10": 0.946, "100": 0.944}}),
)  # fmt: skip
"""With the paper's table of interventions beside each; its VINE rows are kept in the result."""

UNTRAINED: dict[str, dict[str, Any]] = {
    "vine": {
        "paper": {"accuracy": 1.0, "psnr": 35.47, "rt": {"1": 0.964, "10": 0.981, "100": 0.986}},
        "reason": "SD-Turbo's weights are needed; not trained here",
    },
    "vine-with-broadcast-gap": {
        "paper": {"accuracy": 0.600, "psnr": 6.97},
        "reason": "did not converge in the paper; not trained here",
    },
}


def interventions(
    labels: Sequence[str],
    photos: Path,
    images: list[Path],
    runs: Path,
    seeds: Sequence[int],
    bfloat16: bool,
) -> dict[str, Any]:
    """Train (or load) the variants and measure their transferability, for every seed."""
    known = {variant.label: variant for variant in VARIANTS}
    unknown = [label for label in labels if label not in known]
    if unknown:
        raise CoverLockError(f"there is no variant '{unknown[0]}': use {', '.join(known)}")
    figures: dict[str, Any] = {}
    for label in labels or known:
        variant = known[label]
        per_seed = {str(s): measure(variant, photos, images, runs, s, bfloat16) for s in seeds}
        figures[label] = {**describe(variant), "seeds": per_seed}
    return {"trained": figures, "untrained": UNTRAINED}


@measurement(
    "experiments interventions",
    training_options,
    click.option("--variant", "variants", multiple=True, help="Only these; may be repeated."),
)
def interventions_command(
    photos: Path,
    images: Path,
    runs: Path,
    variants: tuple[str, ...],
    seeds: tuple[int, ...],
    bf16: bool,
) -> Measured:
    """Train the paper's architectural variants on PHOTOS and compare their RT."""
    measured = find_photos(images)
    figures = interventions(variants, photos, measured, runs, seeds, bf16)
    config = {"photos": photos.name, "images": images.name, "measured_on": len(measured)}
    config |= {"seeds": list(seeds), "bfloat16": bf16}
    return Measured(config, figures, INTERVENTIONS.markdown(figures))

"""Do training choices explain transferability? (appendix E.1 of the paper)

HiDDeN and MBRS are trained with another dataset, message length, weight of fidelity, or with noise,
everything else as in the base run. If the architecture decides, HiDDeN stays low and MBRS high.
There are fourteen runs, so each is shorter than an intervention's: long enough for the message to
be learned and for fidelity to have come in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from coverlock_bench.measurement import FOLDER, Measured, measurement
from coverlock_bench.photos import find_photos
from coverlock_sdk.errors import CoverLockError
from coverlock_training.watermarks.noise import EVERYDAY
from experiments.interventions import VARIANTS
from experiments.tables import TRAINING_FACTORS
from experiments.trained import Variant, describe, measure, training_options

SHORTER: dict[str, dict[str, Any]] = {
    "hidden": {"steps": 600, "message_first": 200, "decay": 150},
    "mbrs": {
        "rate": 1e-3,
        "batch": 16,
        "steps": 200,
        "message_first": 50,
        "early_fidelity": 0.02,
        "decay": 70,
    },
}
SETTINGS: dict[str, dict[str, Any]] = {"hidden": {}, "mbrs": {"bits": 64, "blocks": 4}}
"""What differs from the networks of the interventions."""
LENGTHS = {"hidden": (8, 30), "mbrs": (16, 256)}
"""Messages shorter and longer than that of the base run."""
WEIGHTS = (0.5, 2.0)
"""Factors on the weight of fidelity."""
OTHER_DATASET = "dataset"


def factors(system: str) -> dict[str, Variant]:
    """The base run of a system and one run per changed training choice, by name of the change."""
    published = next(variant for variant in VARIANTS if variant.label == system)
    recipe = replace(published.recipe, **SHORTER[system])
    settings = {**published.settings, **SETTINGS[system]}
    base = replace(published, label=f"{system}-base", settings=settings, recipe=recipe)

    def changed(change: str, **changes: Any) -> Variant:
        return replace(base, label=f"{system}-{change}", paper={}, **changes)

    runs = {"base": base, OTHER_DATASET: changed(OTHER_DATASET)}
    for bits in LENGTHS[system]:
        settings = {**base.settings, "bits": bits}
        runs[f"{bits} bits"] = changed(f"{bits}-bits", settings=settings)
    for factor in WEIGHTS:
        weighted = replace(recipe, image_weight=factor * recipe.image_weight)
        runs[f"fidelity x {factor:g}"] = changed(f"fidelity-{factor:g}", recipe=weighted)
    runs["noise"] = changed("noise", recipe=replace(recipe, noise=EVERYDAY))
    return runs


def training_factors(
    systems: Sequence[str],
    changes: Sequence[str],
    photos: Path,
    other_photos: Path | None,
    images: list[Path],
    runs: Path,
    seeds: Sequence[int],
    bfloat16: bool,
) -> dict[str, Any]:
    """RT of every run; those on the other dataset need ``other_photos`` and are left out without.

    ``changes`` restricts the runs by name of the change.
    """
    figures: dict[str, Any] = {}
    for system in systems:
        known = factors(system)
        unknown = [change for change in changes if change not in known]
        if unknown:
            raise CoverLockError(f"there is no change '{unknown[0]}': use {', '.join(known)}")
        for change, variant in known.items():
            folder = other_photos if change == OTHER_DATASET else photos
            if (changes and change not in changes) or folder is None:
                continue
            per_seed = {str(s): measure(variant, folder, images, runs, s, bfloat16) for s in seeds}
            row = {**describe(variant), "photos": folder.name, "seeds": per_seed}
            figures.setdefault(system, {})[change] = row
    return figures


@measurement(
    "experiments training-factors",
    training_options,
    click.option("--other-photos", type=FOLDER, help="A second dataset to train on."),
    click.option(
        "-w", "--watermark", "systems", multiple=True, default=("hidden", "mbrs"), show_default=True
    ),
    click.option("--change", "changes", multiple=True, help="Only these; may be repeated."),
)
def training_factors_command(
    photos: Path,
    other_photos: Path | None,
    images: Path,
    runs: Path,
    systems: tuple[str, ...],
    changes: tuple[str, ...],
    seeds: tuple[int, ...],
    bf16: bool,
) -> Measured:
    """Vary dataset, message length, loss weight and noise, and see whether RT follows."""
    measured = find_photos(images)
    figures = training_factors(systems, changes, photos, other_photos, measured, runs, seeds, bf16)
    config: dict[str, Any] = {"photos": photos.name, "images": images.name}
    config |= {"other_photos": other_photos and other_photos.name, "measured_on": len(measured)}
    config |= {"seeds": list(seeds), "bfloat16": bf16}
    return Measured(config, figures, TRAINING_FACTORS.markdown(figures))

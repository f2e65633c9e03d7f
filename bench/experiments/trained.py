"""Watermarks trained for a comparison: equal settings within it, one run folder each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from coverlock_bench.ledger import Ledger, Session
from coverlock_bench.measurement import FOLDER
from coverlock_bench.rt import transferability_curve
from coverlock_plugins.networks.network import WatermarkNetwork
from coverlock_plugins.networks.watermark import NetworkWatermark
from coverlock_plugins.networks.weights import load_network
from coverlock_sdk import Watermark
from coverlock_sdk.cli.options import together
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.models.checkpoints import read_checkpoint
from coverlock_sdk.plugin_manager import plugin_manager
from coverlock_sdk.progress import step_progress
from coverlock_training.watermarks.trainable import train_watermark
from coverlock_training.watermarks.trainer import WatermarkRecipe
from experiments.tables import COUNTS

CURVE_POINTS = 60
MEASURED = "measured.sqlite"
"""In the folder of the runs: RT of each message, so that a repeated command measures none twice."""

training_options = together(
    click.argument("photos", type=FOLDER),
    click.option(
        "--images",
        type=FOLDER,
        required=True,
        help="Photos to measure RT on, which no training has seen; 200 for RT@100.",
    ),
    click.option(
        "--runs",
        type=click.Path(file_okay=False, path_type=Path),
        required=True,
        help="Folder for the training runs; what is there is loaded or goes on.",
    ),
    click.option("--seed", "seeds", multiple=True, type=int, default=(0, 1, 2), show_default=True),
    click.option("--bf16", is_flag=True, help="Compute convolutions in bfloat16."),
)
"""What studies that train networks are given."""


@dataclass(frozen=True)
class Variant:
    """One network of a comparison."""

    label: str
    network: str
    """The name it is registered under."""
    settings: Mapping[str, Any]
    recipe: WatermarkRecipe
    paper: Mapping[str, Any] = field(default_factory=dict)
    """What the paper reports for it, at the published size."""


def trained(
    variant: Variant, photos: Path, runs: Path, seed: int, bfloat16: bool
) -> NetworkWatermark:
    """The variant's watermark, from its run folder where training has finished, else trained."""
    run = runs / f"{variant.label}-{seed}"
    trainable = plugin_manager().get("network", variant.network)()
    recipe = replace(variant.recipe, seed=seed)
    finished, card = run / "watermark.safetensors", run / "watermark.json"
    network: WatermarkNetwork
    if finished.exists():
        network = load_network(finished, trainable.build)
        made_with = json.loads(card.read_text())
        _require_same(made_with.get("sittings", [made_with]), variant, recipe, run)
    else:
        checkpoint = run / "checkpoint.pt"
        if checkpoint.exists():
            _require_same(read_checkpoint(checkpoint).get("sittings", []), variant, recipe, run)
        stage, cache = f"{variant.label}, seed {seed}", runs / "cache"
        with step_progress(stage, recipe.steps) as report:
            given = variant.settings, recipe, cache
            network = train_watermark(trainable, photos, run, *given, report, bfloat16)
    return NetworkWatermark(network.float(), variant.label, json.loads(card.read_text()))


def measure(
    variant: Variant, photos: Path, images: list[Path], runs: Path, seed: int, bfloat16: bool
) -> dict[str, Any]:
    """Quality, RT@1, RT@10 and RT@100 of a variant, and how fast it learned."""
    watermark = trained(variant, photos, runs, seed, bfloat16)
    card = watermark.card
    return {
        "bit_accuracy": card["held_out"]["bit_accuracy"],
        "psnr": card["held_out"]["psnr_mean"],
        "images_seen": card["images_seen"],
        "covers_seen": card["covers_seen"],
        "rt": transferability(watermark, images, seed, Session(Ledger(runs / MEASURED))),
        "curve": _curve(runs / f"{variant.label}-{seed}", variant.recipe.batch),
    }


def transferability(
    watermark: Watermark,
    images: list[Path],
    seed: int,
    session: Session | None = None,
    counts: Sequence[int] = COUNTS,
) -> dict[str, Any]:
    """RT@s for every s of ``counts`` that there are pictures for."""
    targets = min(100, len(images) // 2)
    curve = transferability_curve(watermark, images, counts, targets, seed=seed, session=session)
    return {str(point.sources): asdict(point) for point in curve.points}


def describe(variant: Variant) -> dict[str, Any]:
    """A variant's settings for a result file, so that no figure is without its size."""
    return {
        "network": variant.network,
        "settings": dict(variant.settings),
        "recipe": variant.recipe.described(),
        "paper": dict(variant.paper),
    }


def _require_same(
    sittings: Sequence[Mapping[str, Any]], variant: Variant, recipe: WatermarkRecipe, run: Path
) -> None:
    """Refuse to show a run, or to go on with it, under settings it was not made with."""
    for made_with in sittings:
        same_settings = variant.settings.items() <= made_with["settings"].items()
        if not (same_settings and recipe.is_described_by(made_with["recipe"])):
            raise CoverLockError(
                f"{run} was trained with other settings than '{variant.label}' has now: delete it, "
                "or use another folder for the runs"
            )


def _curve(run: Path, batch: int) -> list[tuple[int, float]]:
    """Training accuracy against images seen, averaged over equal parts of the run."""
    steps = json.loads((run / "history.json").read_text())["steps"]
    accuracy = np.array([record["accuracy"] for record in steps])
    parts = np.array_split(np.arange(len(accuracy)), min(CURVE_POINTS, len(accuracy)))
    return [(int((p[-1] + 1) * batch), round(float(accuracy[p].mean()), 4)) for p in parts]

"""``coverlock train filter``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_plugins.convnext import install_filter
from coverlock_sdk.errors import needs
from coverlock_sdk.loading import load_watermark
from coverlock_sdk.progress import step_progress
from coverlock_training.options import training_options


@click.command("filter")
@click.argument("watermark")
@training_options
@click.option(
    "--backbone",
    type=click.Choice(["convnext", "resnet", "features"]),
    default="convnext",
    show_default=True,
    help="'features' is a small network on the frozen features of dinov2-s.",
)
@click.option("--published", is_flag=True, help="The published size, on plain pictures; for a GPU.")
@click.option("--pictures", type=int, help="Photos to mark.")
@click.option("--validation", type=int, help="Held-out photos for the ROC-AUC.")
def train_filter(
    watermark: str,
    photos: Path,
    run: Path,
    backbone: str,
    published: bool,
    **changes: int | None,
) -> None:
    """Train the classifier that filters forgeries of WATERMARK, on a folder of PHOTOS.

    The filter is installed for load_defense("convnext").
    """
    with needs("training", "PyTorch", "torch"):
        from coverlock_plugins.convnext import classifiers, training
        from coverlock_training.loop import adjusted
    recipe = adjusted(training.FilterRecipe(), **changes)
    settings = classifiers.PUBLISHED[backbone] if published else None

    def line(step: int, figures: dict[str, float]) -> str:
        if step % recipe.record_every:
            return ""
        return f"loss {figures['loss']:.3f}, accuracy {figures['accuracy']:.2f}"

    system = load_watermark(watermark)
    with step_progress("filter", recipe.steps, line) as report:
        written = training.train_filter(system, photos, run, backbone, settings, recipe, report)
    click.echo(written.with_suffix(".json").read_text().strip())
    click.echo(f"installed {install_filter(written, watermark, backbone)}", err=True)

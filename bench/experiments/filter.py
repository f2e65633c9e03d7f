"""``python -m experiments filter``: train the classifier of the baseline that filters forgeries."""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_plugins.convnext import install_filter
from coverlock_sdk import load_watermark
from coverlock_sdk.errors import needs
from coverlock_sdk.progress import step_progress
from coverlock_training.options import training_options


@click.command("filter")
@click.argument("watermark")
@training_options
@click.option("--published", is_flag=True, help="ConvNeXt-Tiny on plain pictures; for a GPU.")
@click.option("--pictures", type=int, help="Photos to mark.")
@click.option("--validation", type=int, help="Held-out photos for the ROC-AUC.")
def filter_command(
    watermark: str, photos: Path, run: Path, published: bool, **changes: int | None
) -> None:
    """Train the classifier that filters forgeries of WATERMARK, on a folder of PHOTOS.

    The filter is installed for load_defense("convnext").
    """
    with needs("training", "PyTorch", "torch"):
        from coverlock_plugins.convnext import training
        from coverlock_plugins.convnext.classifier import PUBLISHED
        from coverlock_training.loop import adjusted
    recipe = adjusted(training.FilterRecipe(), **changes)
    settings = PUBLISHED if published else None

    def line(step: int, figures: dict[str, float]) -> str:
        if step % recipe.record_every:
            return ""
        return f"loss {figures['loss']:.3f}, accuracy {figures['accuracy']:.2f}"

    system = load_watermark(watermark)
    with step_progress("filter", recipe.steps, line) as report:
        written = training.train_filter(system, photos, run, recipe, settings, report)
    click.echo(written.with_suffix(".json").read_text().strip())
    click.echo(f"installed {install_filter(written, watermark)}", err=True)

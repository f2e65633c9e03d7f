"""``coverlock train filter``"""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

from coverlock_plugins.convnext import install_filter
from coverlock_sdk.cli.options import training_options
from coverlock_sdk.errors import MissingModelError
from coverlock_sdk.loading import load_watermark


@click.command("filter")
@click.argument("watermark")
@training_options
@click.option(
    "--backbone",
    type=click.Choice(["convnext", "resnet", "features"]),
    default="convnext",
    show_default=True,
    help="'features' is a small network on the frozen features of the nano hash.",
)
@click.option("--published", is_flag=True, help="The published size, on plain pictures; for a GPU.")
@click.option("--pictures", type=int, help="Photos to mark.")
@click.option("--validation", type=int, help="Held-out photos for the ROC-AUC.")
@click.option("--steps", type=int, help="Optimisation steps.")
@click.option("--batch", type=int, help="Pictures per step.")
@click.option("--seed", default=0, show_default=True)
def train_filter(
    watermark: str,
    photos: Path,
    run: Path,
    backbone: str,
    published: bool,
    seed: int,
    **changes: int | None,
) -> None:
    """Train the classifier that filters forgeries of WATERMARK, on a folder of PHOTOS.

    The filter is installed for load_defense("convnext").
    """
    try:
        from coverlock_plugins.convnext import classifiers, training
    except ImportError as error:
        raise MissingModelError(
            "training needs PyTorch: pip install 'coverlock-sdk[torch]'"
        ) from error
    given = {name: value for name, value in changes.items() if value is not None}
    recipe = training.Recipe(seed=seed, **given)
    settings = classifiers.PUBLISHED[backbone] if published else None
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("training", total=recipe.steps)

        def report(step: int, figures: dict[str, float]) -> None:
            bar.update(task, completed=step)
            if step % recipe.record_every == 0:
                loss, accuracy = figures["loss"], figures["accuracy"]
                bar.console.print(f"step {step}: loss {loss:.3f}, accuracy {accuracy:.2f}")

        system = load_watermark(watermark)
        written = training.train_filter(system, photos, run, backbone, settings, recipe, report)
    click.echo(written.with_suffix(".json").read_text().strip())
    click.echo(f"installed {install_filter(written, watermark, backbone)}", err=True)

"""``coverlock train preference``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_sdk.cli.options import training_options
from coverlock_sdk.errors import needs
from coverlock_sdk.progress import StepProgress


@click.command("preference")
@training_options
@click.option("--side", type=click.IntRange(64), help="Pixels of the squares cut out of photos.")
@click.option("--published", is_flag=True, help="The authors' size and schedule, for GPUs.")
def train_preference_command(
    photos: Path,
    run: Path,
    side: int | None,
    published: bool,
    **schedule: int | None,
) -> None:
    """Train the preference model of the WMForger attack on a folder of unmarked PHOTOS.

    The defaults are the recipe of the small model that ships.
    """
    with needs("training", "PyTorch", "torch"):
        from coverlock_bench.preference import training
        from coverlock_sdk.training.loop import adjusted
    recipe = training.PUBLISHED_RECIPE if published else training.PreferenceRecipe()
    recipe = adjusted(recipe, schedule=adjusted(recipe.schedule, **schedule), side=side)
    with StepProgress({"preference": recipe.schedule.steps}, _line) as progress:
        network = training.train_preference(photos, run, recipe, progress.of("preference"))
    written = training.write_preference(network, recipe, run)
    click.echo(f"wrote {written} and {written.with_suffix('.json')}")


def _line(step: int, figures: dict[str, float]) -> str:
    """What a validation found."""
    if "preferred" not in figures:
        return ""
    return (
        f"unmarked preferred in {figures['preferred']:.1%} of held-out pairs, "
        f"lifted marks correlate {figures['lifted']:.3f} with the true ones"
    )

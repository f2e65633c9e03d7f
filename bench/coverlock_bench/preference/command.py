"""``coverlock train preference``"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

from coverlock_bench.packages import needing
from coverlock_sdk.cli.options import training_options


@click.command("preference")
@training_options
@click.option("--steps", type=click.IntRange(1), help="Optimisation steps.")
@click.option("--batch", type=click.IntRange(1), help="Pairs per step.")
@click.option("--side", type=click.IntRange(64), help="Pixels of the squares cut out of photos.")
@click.option("--published", is_flag=True, help="The authors' size and schedule, for GPUs.")
@click.option("--seed", default=0, show_default=True)
def train_preference_command(
    photos: Path,
    run: Path,
    steps: int | None,
    batch: int | None,
    side: int | None,
    published: bool,
    seed: int,
) -> None:
    """Train the preference model of the WMForger attack on a folder of unmarked PHOTOS.

    The defaults are the recipe of the small model that ships.
    """
    with needing("training", "torch"):
        from coverlock_bench.preference import training, weights
    recipe = training.PUBLISHED_RECIPE if published else training.Recipe()
    given = {"steps": steps, "batch": batch, "seed": seed}
    schedule = dataclasses.replace(
        recipe.schedule, **{name: value for name, value in given.items() if value is not None}
    )
    recipe = dataclasses.replace(recipe, schedule=schedule, side=side or recipe.side)
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("preference", total=schedule.steps)

        def report(step: int, figures: dict[str, float]) -> None:
            bar.update(task, completed=step)
            if "preferred" in figures:
                bar.console.print(
                    f"{step}: unmarked preferred in {figures['preferred']:.1%} of held-out pairs, "
                    f"lifted marks correlate {figures['lifted']:.3f} with the true ones"
                )

        network = training.train_preference(photos, run, recipe, report)
    weights.save_preference(network.half(), run / "preference.safetensors")
    card = training.model_card(recipe, run)
    (run / "preference.json").write_text(json.dumps(card, indent=2) + "\n")
    click.echo(f"wrote {run / 'preference.safetensors'} and {run / 'preference.json'}")

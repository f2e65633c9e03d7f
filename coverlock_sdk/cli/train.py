"""``coverlock train``"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from coverlock_sdk.errors import MissingModelError
from coverlock_sdk.hashing.dinov2 import VARIANTS, install_head, load_backbone


@click.group()
def train() -> None:
    """Train a hash of your own."""


@train.command("hash")
@click.argument("photos", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--run",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder for checkpoints, curves and weights; an interrupted run goes on there.",
)
@click.option(
    "--backbone",
    type=click.Choice(["nano", *VARIANTS]),
    default="nano",
    show_default=True,
    help="'nano' is trained whole; DINOv2 is frozen under the paper's head.",
)
@click.option("--steps", type=int, help="Optimisation steps (of the network, for 'nano').")
@click.option("--batch", type=int, help="Pictures per step.")
@click.option(
    "--views",
    type=int,
    help="Distorted views per picture whose features are cached; 0: always fresh ones.",
)
@click.option("--seed", default=0, show_default=True)
def train_hash(
    photos: Path,
    run: Path,
    backbone: str,
    steps: int | None,
    batch: int | None,
    views: int | None,
    seed: int,
) -> None:
    """Train an image hash on a folder of PHOTOS.

    The defaults are the recipe of the `nano` that ships or, for DINOv2, that of the paper.
    """
    try:
        from coverlock_sdk.hashing import recipes
    except ImportError as error:
        raise MissingModelError(
            "training needs PyTorch: pip install 'coverlock-sdk[torch,bench]'"
        ) from error
    changed = {"steps": steps, "batch": batch, "seed": seed}
    given = {name: value for name, value in changed.items() if value is not None}
    with _Report() as report:
        if backbone == "nano":
            nano = recipes.NanoRecipe()
            nano = dataclasses.replace(
                nano,
                body=dataclasses.replace(nano.body, **given),
                views=nano.views if views is None else views,
            )
            report.stages = {"body": nano.body.steps, "head": nano.head.steps}
            recipes.train_nano(photos, run, nano, report)
        else:
            head = recipes.HeadRecipe()
            head = dataclasses.replace(
                head, schedule=dataclasses.replace(head.schedule, **given), views=views or 0
            )
            report.stages = {"head": head.schedule.steps}
            recipes.train_head(load_backbone(backbone), photos, run, head, report)
            install_head(backbone, run)
    click.echo(f"wrote {run / 'hash.safetensors'} and {run / 'hash.json'}")


class _Report:
    """A progress bar per stage, and a line for each validation."""

    def __init__(self) -> None:
        self.stages: dict[str, int] = {}
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )

    def __enter__(self) -> _Report:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def __call__(self, stage: str, step: int, figures: dict[str, float]) -> None:
        tasks = {task.description: task.id for task in self._bar.tasks}
        if stage not in tasks:
            tasks[stage] = self._bar.add_task(stage, total=self.stages[stage])
        self._bar.update(tasks[stage], completed=step)
        if "error" in figures:
            self._bar.console.print(
                f"{stage} {step}: bit error {figures['error']:.2%} "
                f"(crop {figures['error_crop']:.2%}), pairs {figures['pairs_mean']:.3f} "
                f"+- {figures['pairs_deviation']:.4f}, {figures['pairs_accepted']:.3%} accepted"
            )

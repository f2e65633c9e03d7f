"""``coverlock train``"""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
from rich.progress import Progress

from coverlock_sdk.cli.options import training_options
from coverlock_sdk.errors import MissingModelError
from coverlock_sdk.hashing.dinov2 import VARIANTS, install_head, load_backbone
from coverlock_sdk.manager import plugin_manager
from coverlock_sdk.progress import step_counter
from coverlock_sdk.watermarking.watermark import card_of

if TYPE_CHECKING:
    from coverlock_sdk.hashing.keen_recipe import KeenRecipe
    from coverlock_sdk.hashing.recipes import NanoRecipe

USABLE_BIT_ACCURACY = 0.75
"""Below it, a watermark network has hardly learned more than to guess bits."""

Recipe = TypeVar("Recipe", "NanoRecipe", "KeenRecipe")

bf16_option = click.option("--bf16", is_flag=True, help="Compute networks in bfloat16.")
device_option = click.option(
    "--device", default="cpu", show_default=True, help="Where to train: cpu, cuda."
)


@click.group()
def train() -> None:
    """Train a hash or a watermark of your own."""


@train.command("hash")
@training_options
@click.option(
    "--backbone",
    type=click.Choice(["nano", "keen", *VARIANTS]),
    default="nano",
    show_default=True,
    help="'nano' and 'keen' are trained whole; DINOv2 is frozen under the paper's head.",
)
@click.option("--steps", type=int, help="Optimisation steps (of the network, if trained whole).")
@click.option("--batch", type=int, help="Pictures per step (of the network, if trained whole).")
@click.option(
    "--views",
    type=click.IntRange(0),
    help="Distorted views per picture whose features are cached; 0: always fresh ones.",
)
@bf16_option
@device_option
@click.option("--seed", default=0, show_default=True)
def train_hash(
    photos: Path,
    run: Path,
    backbone: str,
    steps: int | None,
    batch: int | None,
    views: int | None,
    bf16: bool,
    device: str,
    seed: int,
) -> None:
    """Train an image hash on a folder of PHOTOS.

    The defaults are the recipe of the `nano` or `keen` that ships or, for DINOv2, that of the
    paper. `keen` also learns from pictures that are drawn for it.
    """
    try:
        from coverlock_sdk.hashing import keen_recipe, recipes
    except ImportError as error:
        raise MissingModelError(
            "training needs PyTorch: pip install 'coverlock-sdk[torch,bench]'"
        ) from error
    changed = {"steps": steps, "batch": batch, "seed": seed}
    given = {name: value for name, value in changed.items() if value is not None}
    with _Report() as report:
        if backbone == "nano":
            nano = _adjusted(recipes.NanoRecipe(), given, seed, views)
            report.stages = {"body": nano.body.steps, "head": nano.head.steps}
            recipes.train_nano(photos, run, nano, report, half=bf16, device=device)
        elif backbone == "keen":
            keen = _adjusted(keen_recipe.KeenRecipe(), given, seed, views)
            stages = {"body": keen.body, "whole": keen.whole, "head": keen.head}
            report.stages = {name: schedule.steps for name, schedule in stages.items()}
            keen_recipe.train_keen(photos, run, keen, report, half=bf16, device=device)
        else:
            head = recipes.HeadRecipe()
            head = dataclasses.replace(
                head, schedule=dataclasses.replace(head.schedule, **given), views=views or 0
            )
            report.stages = {"head": head.schedule.steps}
            frozen = load_backbone(backbone)
            recipes.train_head(frozen, photos, run, head, report, half=bf16, device=device)
            install_head(backbone, run)
    click.echo(f"wrote {run / 'hash.safetensors'} and {run / 'hash.json'}")


def _adjusted(recipe: Recipe, given: dict[str, int], seed: int, views: int | None) -> Recipe:
    """A recipe with what the command line changes of its two stages."""
    return dataclasses.replace(
        recipe,
        body=dataclasses.replace(recipe.body, **given),
        head=dataclasses.replace(recipe.head, seed=seed),
        views=recipe.views if views is None else views,
    )


@train.command("watermark")
@click.argument("name")
@training_options
@click.option(
    "--reference",
    is_flag=True,
    help="Size and recipe of the checkpoint that ships, not those that were published.",
)
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="A network setting.")
@click.option("--steps", type=int, help="Optimisation steps.")
@click.option("--batch", type=int, help="Pictures per step.")
@click.option("--rate", type=float, help="Learning rate.")
@click.option("--image-weight", type=float, help="Weight of fidelity in the loss.")
@click.option("--message-weight", type=float, help="Weight of the message in the loss.")
@click.option("--message-first", type=int, help="Steps in which fidelity counts little.")
@click.option(
    "--noise",
    type=click.Choice(["recipe", "everyday", "none"]),
    default="recipe",
    show_default=True,
    help="What marked pictures go through: the recipe's pool, the everyday one, or nothing.",
)
@bf16_option
@device_option
@click.option("--seed", default=0, show_default=True)
def train_watermark(
    name: str,
    photos: Path,
    run: Path,
    reference: bool,
    changes: tuple[str, ...],
    steps: int | None,
    batch: int | None,
    rate: float | None,
    image_weight: float | None,
    message_weight: float | None,
    message_first: int | None,
    noise: str,
    bf16: bool,
    device: str,
    seed: int,
) -> None:
    """Train the watermark network NAME on a folder of PHOTOS.

    Without --reference the defaults are those of the published system. The weights that come out
    are used as load_watermark(NAME, weights="RUN/watermark.safetensors").
    """
    try:
        from coverlock_sdk.watermarking.noise import EVERYDAY
        from coverlock_sdk.watermarking.trainable import adjusted
        from coverlock_sdk.watermarking.trainable import train_watermark as run_training
    except ImportError as error:
        raise MissingModelError(
            "training needs PyTorch and kornia: pip install 'coverlock-sdk[torch,bench]'"
        ) from error
    trainable = plugin_manager().get("network", name)()
    recipe = adjusted(
        trainable.reference_recipe if reference else trainable.recipe,
        steps=steps,
        batch=batch,
        rate=rate,
        image_weight=image_weight,
        message_weight=message_weight,
        message_first=message_first,
        noise={"everyday": EVERYDAY, "none": ()}.get(noise),
        seed=seed,
    )
    settings = {**(trainable.reference if reference else {}), **_settings(changes)}
    with _Report() as report:
        report.stages = {name: recipe.steps}
        run_training(
            trainable,
            photos,
            run,
            settings,
            recipe,
            report=partial(report, name),
            half=bf16,
            device=device,
        )
    weights = run / "watermark.safetensors"
    click.echo(f"wrote {weights} and {run / 'watermark.json'}")
    held_out = card_of(weights)["held_out"]
    click.echo(
        f"on held-out photos: bits {held_out['bit_accuracy']:.2%}, "
        f"PSNR {held_out['psnr_mean']:.1f} dB"
    )
    if held_out["bit_accuracy"] < USABLE_BIT_ACCURACY:
        click.echo(
            "warning: this network does not carry its message yet: go on with the same command and "
            "more --steps, or begin a run with a longer start that favours the message "
            "(--message-first)",
            err=True,
        )


def _settings(changes: tuple[str, ...]) -> dict[str, int | float | bool]:
    """KEY=VALUE pairs, whose values are written as in JSON."""
    settings = {}
    for change in changes:
        key, _, value = change.partition("=")
        try:
            settings[key] = json.loads(value)
        except ValueError:
            raise click.BadParameter(
                f"'{change}' is not KEY=NUMBER, KEY=true or KEY=false"
            ) from None
    return settings


class _Report:
    """A progress bar for the stage under way, and a line for each validation.

    Between stages there is none, since what is cached there has a bar of its own.
    """

    def __init__(self) -> None:
        self.stages: dict[str, int] = {}
        self._bars: dict[str, Progress] = {}

    def __enter__(self) -> _Report:
        return self

    def __exit__(self, *exception: object) -> None:
        for bar in self._bars.values():
            _close(bar)

    def __call__(self, stage: str, step: int, figures: dict[str, float]) -> None:
        if stage not in self._bars:
            self._bars[stage] = _bar(stage, self.stages[stage])
        bar = self._bars[stage]
        bar.update(bar.task_ids[0], completed=step)
        if bar.finished:
            _close(bar)
        if "bit_accuracy" in figures:
            bar.console.print(
                f"{stage} {step}: bits {figures['bit_accuracy']:.2%}, "
                f"PSNR {figures['psnr_mean']:.1f} dB"
            )
        if "error" in figures:
            bar.console.print(
                f"{stage} {step}: bit error {figures['error']:.2%} "
                f"(crop {figures['error_crop']:.2%}), pairs {figures['pairs_mean']:.3f} "
                f"+- {figures['pairs_deviation']:.4f}, {figures['pairs_accepted']:.3%} accepted"
            )


def _bar(stage: str, steps: int) -> Progress:
    """A bar that has been started."""
    bar = step_counter()
    bar.add_task(stage, total=steps)
    bar.start()
    return bar


def _close(bar: Progress) -> None:
    """Stop a bar once; a second time would print an empty line."""
    if bar.live.is_started:
        bar.stop()

"""``coverlock train watermark``"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from coverlock_plugins.networks.watermark import card_of
from coverlock_sdk.errors import needs
from coverlock_sdk.plugin_manager import plugin_manager
from coverlock_sdk.progress import step_progress
from coverlock_training.options import device_options, training_options

USABLE_BIT_ACCURACY = 0.75
"""Below it, a watermark network has hardly learned more than to guess bits."""

RECIPE: dict[str, Any] = {
    "rate": click.FLOAT,
    "optimizer": click.Choice(["adamw", "muon"]),
    "image_weight": click.FLOAT,
    "message_weight": click.FLOAT,
    "message_first": click.INT,
    "early_fidelity": click.FLOAT,
    "lifted": click.BOOL,
    "piece": click.INT,
    "settled": click.INT,
    "warmup": click.INT,
    "decay": click.INT,
}
"""What ``--recipe`` changes; the fields of a ``Recipe`` say what each one means."""


@click.command("watermark")
@click.argument("name")
@training_options
@click.option(
    "--reference",
    is_flag=True,
    help="Use the size and recipe of the checkpoint that ships, not the published ones.",
)
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="A network setting.")
@click.option(
    "--recipe",
    "recipe_changes",
    multiple=True,
    metavar="KEY=VALUE",
    help=f"A setting of the recipe: {', '.join(RECIPE)}. Repeatable.",
)
@click.option(
    "--noise",
    type=click.Choice(["recipe", "everyday", "mixed", "none"]),
    default="recipe",
    show_default=True,
    help="Noise that marked pictures go through: the recipe's, everyday noise, everyday noise "
    "drawn for each picture of a batch (mixed), or none.",
)
@click.option(
    "--start",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Weights to start from if RUN has no checkpoint yet.",
)
@device_options
def train_watermark(
    name: str,
    photos: Path,
    run: Path,
    reference: bool,
    changes: tuple[str, ...],
    recipe_changes: tuple[str, ...],
    noise: str,
    start: Path | None,
    bf16: bool,
    device: str,
    **schedule: Any,
) -> None:
    """Train the watermark network NAME on a folder of PHOTOS.

    Without --reference, the defaults are those of the published system. Load the result with
    load_watermark(NAME, weights="RUN/watermark.safetensors").
    """
    with needs("training", "PyTorch and kornia", "torch"):
        from coverlock_training.loop import adjusted
        from coverlock_training.watermarks import trainable
        from coverlock_training.watermarks.noise import EVERYDAY, Mixed
    network = plugin_manager().get("network", name)()
    pool = {"everyday": EVERYDAY, "mixed": (Mixed(EVERYDAY),), "none": ()}.get(noise)
    recipe = network.reference_recipe if reference else network.recipe
    recipe = adjusted(recipe, noise=pool, **schedule, **_recipe(recipe_changes))
    settings = {**(network.reference if reference else {}), **_settings(changes)}
    with step_progress(name, recipe.steps, _watermark_line) as report:
        given = photos, run, settings, recipe
        trainable.train_watermark(
            network, *given, report=report, bfloat16=bf16, device=device, start=start
        )
    weights = run / "watermark.safetensors"
    click.echo(f"wrote {weights} and {run / 'watermark.json'}")
    held_out = card_of(weights)["held_out"]
    click.echo(f"on held-out photos: {_watermark_line(0, held_out)}")
    if held_out["bit_accuracy"] < USABLE_BIT_ACCURACY:
        click.echo(
            "warning: this network does not carry its message yet: go on with the same command and "
            "more --steps, or begin a run with a longer start that favours the message "
            "(--recipe message_first=1000)",
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


def _recipe(changes: tuple[str, ...]) -> dict[str, Any]:
    """KEY=VALUE pairs, whose values are what their keys ask for."""
    recipe = {}
    for change in changes:
        key, _, value = change.partition("=")
        if key not in RECIPE:
            raise click.BadParameter(f"'{key}' is none of {', '.join(RECIPE)}")
        recipe[key] = RECIPE[key].convert(value, None, None)
    return recipe


def _watermark_line(step: int, figures: dict[str, float]) -> str:
    """What a validation of a watermark found."""
    if "bit_accuracy" not in figures:
        return ""
    bits, native, photos = (figures[name] for name in ("bit_accuracy", "psnr_mean", "psnr_lifted"))
    return f"bits {bits:.2%}, PSNR {native:.1f} dB, {photos:.1f} dB in photos of twice the side"

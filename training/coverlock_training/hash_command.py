"""``coverlock train hash``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_plugins.dinov2.hash import VARIANTS, find_head, install_head, load_backbone
from coverlock_sdk.errors import CoverLockError, MissingModelError, needs
from coverlock_sdk.models.assets import cache_folder
from coverlock_sdk.progress import step_progress
from coverlock_training.options import device_options, training_options


@click.command("hash")
@training_options
@click.option(
    "--backbone",
    type=click.Choice(list(VARIANTS)),
    default="dinov2-s",
    show_default=True,
    help="The frozen network on which a head is trained.",
)
@click.option(
    "--views",
    type=click.IntRange(1),
    help="Distorted views to cache per photo (default 10).",
)
@click.option("--replace", is_flag=True, help="Install the head although there is one already.")
@device_options
def train_hash(
    photos: Path,
    run: Path,
    backbone: str,
    views: int | None,
    replace: bool,
    bf16: bool,
    device: str,
    seed: int,
    steps: int | None,
    batch: int | None,
) -> None:
    """Train the paper's image hash on a folder of PHOTOS.

    The features of each photo, clean and distorted, are computed once by a frozen DINOv2, and a
    head is trained on them. It is installed beside its backbone if the hash has none yet and it
    meets the bar on held-out photos: the six distortions flip at most 10 % of its bits, and
    different photos agree in 0.5 +- 0.04 of theirs with a deviation of at most 0.06. To resume an
    interrupted run, repeat the command.
    """
    with needs("training", "PyTorch", "torch"):
        from coverlock_training.hashes import figures, heads
        from coverlock_training.loop import adjusted, require_device
    place = require_device(device)
    recipe = adjusted(heads.HeadRecipe(), steps=steps, batch=batch, seed=seed, views=views)
    data = heads.head_data(load_backbone(backbone).to(place), photos, run / "cache", recipe)
    with step_progress("head", recipe.steps, _hash_line) as report:
        found = heads.train_head(data, run, recipe, report, bf16, device)
    click.echo(f"wrote {run / 'hash.safetensors'} and {run / 'hash.json'}")
    click.echo(f"on held-out photos: {_hash_line(0, found)}")
    if missed := figures.shortcomings(found):
        raise CoverLockError(
            f"the head stays in {run} and is not installed: {', and '.join(missed)}; train it on "
            "more photos or for more --steps"
        )
    if _has_head(backbone) and not replace:
        click.echo(
            f"the head stays in {run}: '{backbone}' has one already, and pictures marked with that "
            "one verify with no other; repeat the command with --replace to install yours"
        )
        return
    click.echo(f"installed {install_head(backbone, run, replace)}")


def _has_head(backbone: str) -> bool:
    """Whether a head is installed or ships."""
    try:
        find_head(backbone, cache_folder() / backbone)
    except MissingModelError:
        return False
    return True


def _hash_line(step: int, figures: dict[str, float]) -> str:
    """What a validation of a hash found."""
    if "error" not in figures:
        return ""
    return (
        f"bit error {figures['error']:.2%} "
        f"(crop {figures['error_crop']:.2%}), pairs {figures['pairs_mean']:.3f} "
        f"+- {figures['pairs_deviation']:.4f}, {figures['pairs_accepted']:.3%} accepted"
    )

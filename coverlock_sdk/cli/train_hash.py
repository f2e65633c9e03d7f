"""``coverlock train hash``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from coverlock_sdk.cli.options import device_options, training_options
from coverlock_sdk.errors import needs
from coverlock_sdk.hashing.dinov2 import VARIANTS, install_head, load_backbone
from coverlock_sdk.loading import DEFAULT_HASH
from coverlock_sdk.progress import StepProgress


@click.command("hash")
@training_options
@click.option(
    "--backbone",
    type=click.Choice(["nano", "keen", "duo", *VARIANTS]),
    default=DEFAULT_HASH,
    show_default=True,
    help="'nano' and 'keen' are trained whole; 'duo' is computed from both; DINOv2 is frozen.",
)
@click.option(
    "--recipe",
    type=click.Choice(["paper", "ours"]),
    default="paper",
    show_default=True,
    help="For DINOv2: the paper's, or that of 'keen', with drawn pictures and attacks.",
)
@click.option(
    "--views",
    type=click.IntRange(0),
    help="Distorted views per picture whose features are cached; 0: always fresh ones.",
)
@device_options
def train_hash(
    photos: Path,
    run: Path,
    backbone: str,
    recipe: str,
    views: int | None,
    bf16: bool,
    device: str,
    **schedule: int | None,
) -> None:
    """Train an image hash on a folder of PHOTOS.

    The defaults are the recipe of the `nano` or `keen` that ships or, for DINOv2, that of the
    paper. `keen` also learns from pictures that are drawn for it, and so does DINOv2 with
    --recipe ours. `duo` puts the two that ship together under a head that is computed. Of several
    stages, --steps and --batch are those of the first, in which most is learned. An interrupted
    run goes on when the command is given again.
    """
    with needs("training", "PyTorch", "torch,bench"):
        from coverlock_sdk.training.hashes import duo_recipe, keen_recipe, recipes
        from coverlock_sdk.training.loop import adjusted
    how: dict[str, Any] = {"bfloat16": bf16, "device": device}
    seed = schedule["seed"]
    if backbone == "nano":
        nano = recipes.NanoRecipe()
        body, last = adjusted(nano.body, **schedule), adjusted(nano.head, seed=seed)
        nano = adjusted(nano, body=body, head=last, views=views)
        with StepProgress({"body": body.steps, "head": last.steps}, _hash_line) as report:
            recipes.train_nano(photos, run, nano, report, **how)
    elif backbone == "keen":
        keen = keen_recipe.KeenRecipe()
        body, last = adjusted(keen.body, **schedule), adjusted(keen.head.schedule, seed=seed)
        whole = adjusted(keen.whole, seed=seed)
        head_stage = adjusted(keen.head, schedule=last, views=views)
        keen = adjusted(keen, body=body, whole=whole, head=head_stage)
        stages = {"body": body.steps, "whole": whole.steps, "head": last.steps}
        with StepProgress(stages, _hash_line) as report:
            keen_recipe.train_keen(photos, run, keen, report, **how)
    elif backbone == "duo":
        if schedule["steps"] or schedule["batch"] or bf16:
            raise click.UsageError(
                "the head of 'duo' is computed: leave out --steps, --batch and --bf16"
            )
        if views == 0:
            raise click.UsageError("'duo' is computed from kept features: --views must be above 0")
        duo = adjusted(duo_recipe.DuoRecipe(), seed=seed, views=views)
        duo_recipe.fit_duo(photos, run, duo, device)
    elif recipe == "ours":
        _train_ours(photos, run, backbone, views, schedule, how)
    else:
        head = recipes.HeadRecipe()
        head = adjusted(head, schedule=adjusted(head.schedule, **schedule), views=views)
        frozen = load_backbone(backbone)
        with StepProgress({"head": head.schedule.steps}, _hash_line) as report:
            recipes.train_head(frozen, photos, run, head, report, **how)
        install_head(backbone, run)
    click.echo(f"wrote {run / 'hash.safetensors'} and {run / 'hash.json'}")


def _train_ours(
    photos: Path,
    run: Path,
    backbone: str,
    views: int | None,
    schedule: dict[str, int | None],
    how: dict[str, Any],
) -> None:
    """A head on a frozen backbone by our recipe."""
    from coverlock_sdk.training.hashes import frozen_recipe
    from coverlock_sdk.training.loop import adjusted

    ours = frozen_recipe.FrozenRecipe()
    head = adjusted(ours.head.schedule, **schedule)
    attacked = adjusted(ours.attacked.schedule, seed=schedule["seed"])
    ours = adjusted(
        ours,
        head=adjusted(ours.head, schedule=head, views=views),
        attacked=adjusted(ours.attacked, schedule=attacked),
    )
    frozen = load_backbone(backbone)
    with StepProgress({"head": head.steps, "attacked": attacked.steps}, _hash_line) as report:
        frozen_recipe.train_frozen(frozen, photos, run, ours, report, **how)
    install_head(backbone, run)


def _hash_line(step: int, figures: dict[str, float]) -> str:
    """What a validation of a hash found."""
    if "error" not in figures:
        return ""
    return (
        f"bit error {figures['error']:.2%} "
        f"(crop {figures['error_crop']:.2%}), pairs {figures['pairs_mean']:.3f} "
        f"+- {figures['pairs_deviation']:.4f}, {figures['pairs_accepted']:.3%} accepted"
    )

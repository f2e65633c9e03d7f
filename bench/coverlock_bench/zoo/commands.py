"""``coverlock bench references``, ``interventions``, ``training-factors`` and ``filters``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_bench.options import out_option, watermarks_option
from coverlock_bench.photos import find_photos
from coverlock_bench.results import write_and_print
from coverlock_sdk.cli.options import json_option

photos_argument = click.argument(
    "photos", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
unseen_option = click.option(
    "--images",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="Photos to measure RT on, which no training has seen; 200 for RT@100.",
)
runs_option = click.option(
    "--runs",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder for the training runs; what is there is loaded or goes on.",
)
seeds_option = click.option(
    "--seed", "seeds", multiple=True, type=int, default=(0,), show_default=True
)
bf16_option = click.option("--bf16", is_flag=True, help="Compute convolutions in bfloat16.")


@click.command("references")
@watermarks_option
@unseen_option
@click.option("--seed", default=0, show_default=True)
@out_option
@json_option
def references_command(
    watermarks: tuple[str, ...], images: Path, seed: int, out: Path, as_json: bool
) -> None:
    """Put the cards of watermarks that were trained here together, and measure their RT."""
    from coverlock_bench.zoo.references import references
    from coverlock_bench.zoo.tables import references_summary

    measured = find_photos(images)
    figures = references(watermarks, measured, seed)
    config = {"images": images.name, "measured_on": len(measured), "seed": seed}
    summary = references_summary(figures)
    write_and_print(out, "bench references", config, figures, as_json, summary)


@click.command()
@photos_argument
@unseen_option
@runs_option
@click.option("--variant", "variants", multiple=True, help="Only these; may be repeated.")
@seeds_option
@bf16_option
@out_option
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw RT of every variant, and training accuracy, to this file.",
)
@json_option
def interventions(
    photos: Path,
    images: Path,
    runs: Path,
    variants: tuple[str, ...],
    seeds: tuple[int, ...],
    bf16: bool,
    out: Path,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Train the paper's architectural variants on PHOTOS and compare their RT."""
    from coverlock_bench.zoo.intervention_picture import draw_interventions
    from coverlock_bench.zoo.interventions import interventions as measure
    from coverlock_bench.zoo.tables import interventions_summary

    measured = find_photos(images)
    figures = measure(variants, photos, measured, runs, seeds, bf16)
    config = {
        "photos": photos.name,
        "images": images.name,
        "measured_on": len(measured),
        "seeds": list(seeds),
        "bfloat16": bf16,
    }
    summary = interventions_summary(figures)
    write_and_print(out, "bench interventions", config, figures, as_json, summary)
    if picture:
        draw_interventions(figures, picture)


@click.command("training-factors")
@photos_argument
@click.option(
    "--other-photos",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A second dataset to train on.",
)
@unseen_option
@runs_option
@click.option(
    "-w", "--watermark", "systems", multiple=True, default=("hidden", "mbrs"), show_default=True
)
@click.option("--change", "changes", multiple=True, help="Only these; may be repeated.")
@seeds_option
@bf16_option
@out_option
@json_option
def training_factors_command(
    photos: Path,
    other_photos: Path | None,
    images: Path,
    runs: Path,
    systems: tuple[str, ...],
    changes: tuple[str, ...],
    seeds: tuple[int, ...],
    bf16: bool,
    out: Path,
    as_json: bool,
) -> None:
    """Vary dataset, message length, loss weight and noise, and see whether RT follows."""
    from coverlock_bench.zoo.tables import training_factors_summary
    from coverlock_bench.zoo.training_factors import training_factors

    measured = find_photos(images)
    figures = training_factors(systems, changes, photos, other_photos, measured, runs, seeds, bf16)
    config = {
        "photos": photos.name,
        "other_photos": other_photos.name if other_photos else None,
        "images": images.name,
        "measured_on": len(measured),
        "seeds": list(seeds),
        "bfloat16": bf16,
    }
    summary = training_factors_summary(figures)
    write_and_print(out, "bench training-factors", config, figures, as_json, summary)


@click.command("filters")
@photos_argument
@watermarks_option
@runs_option
@click.option("--pictures", default=1000, show_default=True, help="Photos to mark.")
@click.option("--validation", default=500, show_default=True, help="Held-out photos.")
@click.option("--steps", default=1800, show_default=True)
@click.option("--seed", default=0, show_default=True)
@out_option
@json_option
def filters_command(
    photos: Path,
    watermarks: tuple[str, ...],
    runs: Path,
    pictures: int,
    validation: int,
    steps: int,
    seed: int,
    out: Path,
    as_json: bool,
) -> None:
    """Train classifiers that tell forgeries from genuine pictures, and compare their ROC-AUC."""
    from coverlock_bench.zoo.filters import filters
    from coverlock_bench.zoo.tables import filters_summary
    from coverlock_plugins.convnext.training import FilterRecipe

    recipe = FilterRecipe(pictures=pictures, validation=validation, steps=steps, seed=seed)
    figures = filters(watermarks, photos, runs, recipe)
    config = {"photos": photos.name, "pictures": pictures, "steps": steps, "seed": seed}
    write_and_print(out, "bench filters", config, figures, as_json, filters_summary(figures))

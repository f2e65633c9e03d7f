"""The commands of our own studies, below ``coverlock bench``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import click

from coverlock_bench.auditing.collection import SIDE
from coverlock_bench.ledger import Ledger, Session, resumable
from coverlock_bench.measurement import (
    FOLDER,
    Measured,
    count_option,
    hashes_option,
    kept,
    measurement,
    number_option,
    work_option,
)
from coverlock_bench.photos import find_photos
from coverlock_bench.rt import COUNTS as RT_COUNTS
from coverlock_bench.settings import named_watermark
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.loading import DEFAULT_HASH
from coverlock_sdk.plugin_calls import working_size
from coverlock_sdk.plugin_manager import plugin_manager
from experiments import tables as declared

Names = tuple[str, ...]

ANY_SIZE_ATTACKS = ("gt", "re-embedding")

photos_argument = click.argument("photos", type=FOLDER)
unseen_option = click.option(
    "--images",
    type=FOLDER,
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


@measurement(
    "hardening",
    "images held_out fpr seed",
    click.option("-w", "--watermark", "watermarks", multiple=True, help="Otherwise all here."),
    hashes_option(DEFAULT_HASH),
    count_option(40),
)
def hardening(
    watermarks: Names, hashes: Names, images: Path | None, held_out: bool, count: int, **common: Any
) -> Iterator[Measured]:
    """Photos without a lock, as bound and hardened: what hardening gains, costs, and tells forgers.

    Each watermark under each hash; its figures are added to the file when they are there.
    """
    from experiments.hardening import hardening as measure

    photos = find_photos(images, held_out)[:count]
    names = watermarks or tuple(plugin_manager().names("watermark"))
    config = {"photos": len(photos), "held_out": held_out, **common}
    figures: dict[str, Any] = {}
    for name, hash_name in product(names, hashes):
        figures[f"{name}, {hash_name}"] = measure(name, hash_name, photos, **common)
        yield Measured(config, figures, declared.HARDENING.markdown(figures))


@measurement("references", "watermarks seed keep", unseen_option)
def references_command(watermarks: Names, images: Path, keep: Path | None, seed: int) -> Measured:
    """Put the cards of watermarks that were trained here together, and measure their RT."""
    from experiments.references import references

    measured = find_photos(images)
    config = {"images": images.name, "measured_on": len(measured), "seed": seed}
    figures = kept(keep, config) | references(watermarks, measured, seed)
    return Measured(config, figures, declared.REFERENCES.markdown(figures))


@measurement(
    "transferability",
    "watermarks seed keep",
    unseen_option,
    click.option(
        "--sources",
        "counts",
        type=click.IntRange(1),
        multiple=True,
        default=RT_COUNTS,
        show_default=True,
        help="Pictures that a residual is averaged over; may be repeated.",
    ),
)
def transferability_command(
    watermarks: Names, images: Path, counts: tuple[int, ...], keep: Path | None, seed: int
) -> Iterator[Measured]:
    """Measure RT@s of watermarks, also of those that were not trained here, up to RT@1000."""
    from experiments.trained import transferability

    measured = find_photos(images)
    config = {"images": images.name, "measured_on": len(measured), "seed": seed}
    figures = kept(keep, config)
    for name in watermarks:
        watermark = named_watermark(name)
        rt = transferability(watermark, measured, seed, counts=counts)
        figures[name] = {"bits": watermark.bits, "side": working_size(watermark)[0], "rt": rt}
        yield Measured(config, figures, declared.MORE_SOURCES.markdown(figures))


@measurement(
    "interventions",
    "picture keep",
    photos_argument,
    unseen_option,
    runs_option,
    click.option("--variant", "variants", multiple=True, help="Only these; may be repeated."),
    seeds_option,
    bf16_option,
)
def interventions(
    photos: Path,
    images: Path,
    runs: Path,
    variants: Names,
    seeds: tuple[int, ...],
    bf16: bool,
    keep: Path | None,
    picture: Path | None,
) -> Measured:
    """Train the paper's architectural variants on PHOTOS and compare their RT."""
    from experiments.intervention_picture import draw_interventions
    from experiments.interventions import interventions as measure

    measured = find_photos(images)
    figures = measure(variants, photos, measured, runs, seeds, bf16, kept(keep))
    if picture:
        draw_interventions(figures, picture)
    every = {int(seed) for variant in figures["trained"].values() for seed in variant["seeds"]}
    config = {"photos": photos.name, **_trained(images, measured, tuple(sorted(every)), bf16)}
    return Measured(config, figures, declared.INTERVENTIONS.markdown(figures))


@measurement(
    "training-factors",
    "",
    photos_argument,
    click.option("--other-photos", type=FOLDER, help="A second dataset to train on."),
    unseen_option,
    runs_option,
    click.option(
        "-w", "--watermark", "systems", multiple=True, default=("hidden", "mbrs"), show_default=True
    ),
    click.option("--change", "changes", multiple=True, help="Only these; may be repeated."),
    seeds_option,
    bf16_option,
)
def training_factors_command(
    photos: Path,
    other_photos: Path | None,
    images: Path,
    runs: Path,
    systems: Names,
    changes: Names,
    seeds: tuple[int, ...],
    bf16: bool,
) -> Measured:
    """Vary dataset, message length, loss weight and noise, and see whether RT follows."""
    from experiments.training_factors import training_factors

    measured = find_photos(images)
    figures = training_factors(systems, changes, photos, other_photos, measured, runs, seeds, bf16)
    other = other_photos.name if other_photos else None
    config = {"photos": photos.name, "other_photos": other}
    config |= _trained(images, measured, seeds, bf16)
    return Measured(config, figures, declared.TRAINING_FACTORS.markdown(figures))


def _trained(images: Path, measured: list[Path], seeds: tuple[int, ...], bf16: bool) -> Any:
    """What the figures of networks trained here depend on."""
    on = {"images": images.name, "measured_on": len(measured)}
    return {**on, "seeds": list(seeds), "bfloat16": bf16}


@measurement(
    "filters",
    "watermarks seed",
    photos_argument,
    runs_option,
    click.option("--pictures", default=1000, show_default=True, help="Photos to mark."),
    click.option("--validation", default=500, show_default=True, help="Held-out photos."),
    click.option("--steps", default=1800, show_default=True),
)
def filters_command(photos: Path, watermarks: Names, runs: Path, **recipe: int) -> Measured:
    """Train classifiers that tell forgeries from genuine pictures, and compare their ROC-AUC."""
    from coverlock_plugins.convnext.training import FilterRecipe
    from experiments.filters import filters

    figures = filters(watermarks, photos, runs, FilterRecipe(**recipe))
    config = {"photos": photos.name, **recipe}
    return Measured(config, figures, declared.FILTERS.markdown(figures))


many_folders_option = click.option(
    "--images",
    "folders",
    multiple=True,
    required=True,
    type=FOLDER,
    help="Folder of photos that no training has seen. May be repeated.",
)


@measurement("residuals", "watermarks seed", unseen_option)
def residuals_command(watermarks: Names, images: Path, seed: int) -> Measured:
    """Keep residuals to look at: averaged over covers, and as each attack lifts them."""
    from experiments.residual_gallery import residual_gallery

    figures = residual_gallery(watermarks, images, seed)
    lines = [
        f"{name}: averages correlate {row['correlation']:.2f}" for name, row in figures.items()
    ]
    return Measured({"images": images.name, "seed": seed}, figures, "\n".join(lines))


@measurement(
    "forgeries",
    "watermarks seed",
    many_folders_option,
    click.option(
        "-d", "--defense", "defenses", multiple=True, default=("coverlock",), show_default=True
    ),
    click.option(
        "--attack",
        "attacks",
        multiple=True,
        default=("gt", "averaging", "wmforger"),
        show_default=True,
    ),
    click.option(
        "--groups", type=click.IntRange(2), help="Residuals to steal at most, where time is short."
    ),
    work_option("adaptive"),
)
def forgeries_command(
    watermarks: Names,
    folders: tuple[Path, ...],
    defenses: Names,
    attacks: Names,
    groups: int | None,
    work: Path,
    seed: int,
) -> Iterator[Measured]:
    """Forge tens of thousands of pictures with each attack; one result file grows as they come."""
    from coverlock_bench.photos import load_squares
    from experiments.forgeries import BARE, FORGERIES, SCALES, forgeries

    session = Session(Ledger(work), quiet=False)
    scales = {name: asdict(SCALES[name]) for name in attacks}
    config = {"seed": seed, "scales": scales, "groups": groups}
    figures: dict[str, Any] = {}
    with resumable(work):
        for folder, name, attack in product(folders, watermarks, attacks):
            pictures = load_squares(find_photos(folder), SIDE)
            cells = figures.setdefault(name, {}).setdefault(folder.name, {}).setdefault(attack, {})
            for defense in ("none", *defenses):
                scale = BARE if defense == "none" else SCALES[attack]
                cells[defense] = forgeries(
                    named_watermark(name), defense, attack, pictures, scale, seed, session, groups
                )
                yield Measured(config, figures, FORGERIES.markdown(figures))


@measurement(
    "any-size",
    "watermarks fpr",
    many_folders_option,
    click.option(
        "-a", "--attack", "attacks", multiple=True, default=ANY_SIZE_ATTACKS, show_default=True
    ),
    click.option(
        "--side", "sides", multiple=True, type=int, default=(256, 512, 1024), show_default=True
    ),
    number_option("--pairs", 20, "Pictures to steal from, and as many to forge."),
    work_option("any-size"),
)
def any_size_command(
    watermarks: Names,
    folders: tuple[Path, ...],
    attacks: Names,
    sides: tuple[int, ...],
    pairs: int,
    fpr: float,
    work: Path,
) -> Measured:
    """Audit watermarks of any size at 256, 512 and 1,024 pixels."""
    from experiments.any_size import any_size

    with resumable(work):
        session = Session(Ledger(work), quiet=False)
        figures = any_size(watermarks, folders, attacks, sides, pairs, fpr, session)
    where = [folder.name for folder in folders]
    config = {"images": where, "attacks": list(attacks), "pairs": pairs, "fpr": fpr}
    return Measured(config, figures, declared.ANY_SIZE.markdown(figures))


@measurement("choices", "watermarks seed", unseen_option, count_option(40))
def choices_command(watermarks: Names, images: Path, count: int, seed: int) -> Measured:
    """Compare watermarks for somebody who has to choose one: quality, bits, RT, time."""
    from experiments.choices import choices

    photos = find_photos(images)[:count]
    figures = choices(watermarks, photos, seed)
    config = {"images": images.name, "photos": len(photos), "seed": seed}
    return Measured(config, figures, declared.CHOICES.markdown(figures))


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--results", type=click.Path(path_type=Path), default=Path("bench/results"))
@click.option("--check", is_flag=True, help="Only say whether the tables are up to date.")
def tables(files: tuple[Path, ...], results: Path, check: bool) -> None:
    """Render the tables of Markdown FILES from result files."""
    from experiments.doc_tables import render

    texts = {path: path.read_text() for path in files}
    rendered = {path: render(text, results) for path, text in texts.items()}
    stale = [path for path in files if rendered[path] != texts[path]]
    if check and stale:
        names = " ".join(map(str, stale))
        raise CoverLockError(f"tables are out of date: run 'coverlock bench tables {names}'")
    for path in stale:
        path.write_text(rendered[path])


@click.command()
@click.option("--results", type=click.Path(path_type=Path), default=Path("bench/results"))
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("docs/plots"))
@click.option("--check", is_flag=True, help="Only say whether the plots are up to date.")
def plots(results: Path, out: Path, check: bool) -> None:
    """Draw the plots of the docs from result files, for light and for dark pages."""
    from experiments.doc_plots import draw, stale

    old = list(dict.fromkeys(stale(out, results)))
    if check and old:
        raise CoverLockError(
            f"plots are out of date ({', '.join(old)}): run 'coverlock bench plots'"
        )
    for name in old:
        draw(name, out, results)


COMMANDS = (
    hardening,
    references_command,
    transferability_command,
    interventions,
    training_factors_command,
    filters_command,
    residuals_command,
    forgeries_command,
    any_size_command,
    choices_command,
    tables,
    plots,
)

"""``coverlock bench ...``: measurements whose results are files."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from coverlock_bench.auditing.security import security_command
from coverlock_bench.photos import find_photos
from coverlock_bench.results import write_result
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.hardening import Hardening
from coverlock_sdk.hashing.held_out import HELD_OUT, split
from coverlock_sdk.lock import DEFAULT_FPR, DEFAULT_HASH, DEFAULT_ROUNDS
from coverlock_sdk.manager import plugin_manager

watermarks_option = click.option(
    "-w", "--watermark", "watermarks", multiple=True, required=True, help="May be repeated."
)
images_option = click.option(
    "--images",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of photos; otherwise the six of 'coverlock fetch photos'.",
)
hash_option = click.option("--hash", default=DEFAULT_HASH, show_default=True)
out_option = click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, help="Result file (JSON)."
)
work_option = click.option(
    "--work",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("runs/adaptive.sqlite"),
    show_default=True,
    help="Measurements made so far; an interrupted run goes on there.",
)


@click.group()
def bench() -> None:
    """Measure: every result is a file that says how it was made."""


bench.add_command(security_command)


@bench.command()
@watermarks_option
@images_option
@hash_option
@click.option("--rounds", default=DEFAULT_ROUNDS, show_default=True)
@click.option("--fpr", default=DEFAULT_FPR, show_default=True)
@out_option
@json_option
def roundtrip(
    watermarks: tuple[str, ...],
    images: Path | None,
    hash: str,
    rounds: int,
    fpr: float,
    out: Path,
    as_json: bool,
) -> None:
    """Mark photos and verify them as saved: unlocked, locked once, locked to a fixed point."""
    from coverlock_bench.roundtrip import roundtrip as measure

    photos = find_photos(images)
    figures = {name: measure(name, photos, hash, rounds, fpr) for name in watermarks}
    config = {"hash": hash, "rounds": rounds, "fpr": fpr, "photos": len(photos)}
    _finish(out, "bench roundtrip", config, figures, as_json)


@bench.command()
@watermarks_option
@images_option
@click.option("--hash", "hashes", multiple=True, default=(DEFAULT_HASH,), help="May be repeated.")
@click.option("--count", type=click.IntRange(2), help="How many photos to use; otherwise all.")
@click.option("--messages", default=20, show_default=True, help="Fixed messages, all-zero first.")
@click.option("--seed", default=0, show_default=True)
@out_option
@json_option
def calibration(
    watermarks: tuple[str, ...],
    images: Path | None,
    hashes: tuple[str, ...],
    count: int | None,
    messages: int,
    seed: int,
    out: Path,
    as_json: bool,
) -> None:
    """Check the p-values of unmarked photos, with each of many messages held fixed."""
    from coverlock_bench.hashes.null_calibration import null_calibration

    photos = find_photos(images)[:count]
    figures = {name: null_calibration(name, hashes, photos, messages, seed) for name in watermarks}
    config = {"hashes": hashes, "messages": messages, "seed": seed, "photos": len(photos)}
    _finish(out, "bench calibration", config, figures, as_json)


@bench.command()
@watermarks_option
@images_option
@hash_option
@click.option("--held-out", is_flag=True, help="Only photos that training leaves out.")
@click.option("--count", default=100, show_default=True, help="How many photos to use.")
@click.option("--fpr", default=DEFAULT_FPR, show_default=True)
@click.option("--seed", default=0, show_default=True)
@out_option
@json_option
def rules(
    watermarks: tuple[str, ...],
    images: Path | None,
    hash: str,
    held_out: bool,
    count: int,
    fpr: float,
    seed: int,
    out: Path,
    as_json: bool,
) -> None:
    """Compare the hard and the soft rule: genuine pictures under distortion, and forgeries."""
    from coverlock_bench.rules import compare_rules

    photos = _chosen(images, held_out)[:count]
    figures = {name: compare_rules(name, hash, photos, fpr, seed) for name in watermarks}
    config = {"hash": hash, "photos": len(photos), "held_out": held_out, "fpr": fpr, "seed": seed}
    _finish(out, "bench rules", config, figures, as_json)


@bench.command()
@click.option(
    "-w", "--watermark", "watermarks", multiple=True, help="May be repeated; otherwise all here."
)
@images_option
@hash_option
@click.option("--held-out", is_flag=True, help="Only photos that training leaves out.")
@click.option("--count", default=40, show_default=True, help="How many photos to use.")
@click.option("--fpr", default=DEFAULT_FPR, show_default=True)
@click.option("--seed", default=0, show_default=True)
@out_option
@json_option
def hardening(
    watermarks: tuple[str, ...],
    images: Path | None,
    hash: str,
    held_out: bool,
    count: int,
    fpr: float,
    seed: int,
    out: Path,
    as_json: bool,
) -> None:
    """Errors of the code on marked photos, as bound and hardened: gain, cost, and forgeries."""
    from coverlock_bench.hashes.hardening import hardening as measure
    from coverlock_bench.tables import hardening_summary

    photos = _chosen(images, held_out)[:count]
    names = watermarks or tuple(plugin_manager().names("watermark"))
    figures = {name: measure(name, hash, photos, fpr, seed) for name in names}
    config = {"hash": hash, "photos": len(photos), "held_out": held_out, "fpr": fpr, "seed": seed}
    config["settings"] = asdict(Hardening())
    summary = hardening_summary(figures)
    _finish(out, "bench hardening", config, figures, as_json, summary)


@bench.command("hash")
@click.option(
    "--hash", "hashes", multiple=True, help="May be repeated; otherwise all that are installed."
)
@images_option
@click.option("--count", type=click.IntRange(2), help="How many photos to use; otherwise all.")
@click.option("--seed", default=0, show_default=True)
@out_option
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw errors and agreement to this file (PNG, PDF or SVG).",
)
@json_option
def hash_command(
    hashes: tuple[str, ...],
    images: Path | None,
    count: int | None,
    seed: int,
    out: Path,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Compare hashes: errors under distortion, agreement of different pictures, size, speed."""
    from coverlock_bench.hashes.hash_picture import draw_hashes
    from coverlock_bench.hashes.hash_report import hash_report, settings
    from coverlock_bench.tables import hash_summary

    photos = find_photos(images)[:count]
    figures = hash_report(hashes, photos, seed)
    summary = hash_summary(figures)
    _finish(out, "bench hash", settings(photos, seed), figures, as_json, summary)
    for name, reason in figures["left_out"].items():
        click.echo(f"left out: {name}, since {reason}", err=True)
    if picture:
        draw_hashes(figures, picture)


@bench.command("hash-variants")
@click.option(
    "--images",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="Folder of training photos; a tenth of them is held out for the figures.",
)
@click.option(
    "--run",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder that keeps cached features and checkpoints.",
)
@out_option
@json_option
def hash_variants_command(images: Path, run: Path, out: Path, as_json: bool) -> None:
    """Compare hashes from scratch, on frozen pretrained backbones, and distilled."""
    from coverlock_bench.hashes.hash_variants import hash_variants, settings
    from coverlock_bench.tables import hash_variants_summary

    figures = hash_variants(images, run)
    summary = hash_variants_summary(figures)
    _finish(out, "bench hash-variants", settings(images), figures, as_json, summary)


@bench.command("hash-latency")
@click.option("--hash", "hashes", multiple=True, default=(DEFAULT_HASH,), help="May be repeated.")
@click.option("--threads", default=2, show_default=True)
@click.option("--turns", default=50, show_default=True, help="Pictures hashed by each graph.")
@out_option
@json_option
def hash_latency_command(
    hashes: tuple[str, ...], threads: int, turns: int, out: Path, as_json: bool
) -> None:
    """Time hashes in ONNX Runtime beside a network of the shape of DINOv2-S."""
    from coverlock_bench.hashes.hash_latency import hash_latency

    figures = hash_latency(hashes, threads, turns)
    config = {"threads": threads, "turns": turns, "reference": "dinov2-s, random weights"}
    _finish(out, "bench hash-latency", config, figures, as_json)


@bench.command()
@click.option("-w", "--watermark", required=True)
@hash_option
@images_option
@click.option("--count", default=500, show_default=True, help="How many photos to compare on.")
@click.option("--precision", "precisions", multiple=True, default=("fp32",), show_default=True)
@click.option("--seed", default=0, show_default=True)
@out_option
@json_option
def parity(
    watermark: str,
    hash: str,
    images: Path | None,
    count: int,
    precisions: tuple[str, ...],
    seed: int,
    out: Path,
    as_json: bool,
) -> None:
    """Compare exported graphs with the SDK; the result file grows with every twenty photos."""
    from coverlock_bench.deployment.parity import parity as measure

    photos = find_photos(images)[: count + 32]
    config = {"watermark": watermark, "hash": hash, "seed": seed}
    figures: dict[str, Any] = {}

    def report(so_far: dict[str, Any]) -> None:
        figures.update(so_far)
        write_result(out, "bench parity", config, figures)

    measure(watermark, hash, photos, precisions, seed, report)
    _finish(out, "bench parity", config, figures, as_json)


@bench.command()
@click.argument("bundle", type=click.Path(exists=True, file_okay=False, path_type=Path))
@images_option
@click.option("--batch", default=8, show_default=True, type=click.IntRange(1))
@click.option("--rounds", default=9, show_default=True, type=click.IntRange(1))
@out_option
@json_option
def overhead(
    bundle: Path, images: Path | None, batch: int, rounds: int, out: Path, as_json: bool
) -> None:
    """Compare the Verifier with a bare session, and one fused graph with two."""
    from coverlock_bench.deployment.overhead import overhead as measure
    from coverlock_sdk.bundle import Bundle

    manifest = Bundle.open(bundle).manifest
    figures = measure(bundle, find_photos(images), batch, rounds)
    config = {
        "watermark": manifest.watermark,
        "hash": manifest.hash,
        "graph": manifest.files[manifest.graphs["verify"]["fp32"]],
    }
    _finish(out, "bench overhead", config, figures, as_json)


@bench.command()
@click.option("-w", "--watermark", default="steganogan", show_default=True)
@click.option("--hash", "hashes", multiple=True, default=("nano", "dct"), show_default=True)
@click.option("--pages", default=6, show_default=True)
@click.option("--fpr", default=DEFAULT_FPR, show_default=True)
@out_option
@json_option
def documents(
    watermark: str, hashes: tuple[str, ...], pages: int, fpr: float, out: Path, as_json: bool
) -> None:
    """Forge between pages of text, where the lock is weaker than between photos."""
    from coverlock_bench.hashes.documents import documents as measure

    figures = measure(watermark, list(hashes), pages, fpr)
    config = {"watermark": watermark, "pages": pages, "fpr": fpr}
    _finish(out, "bench documents", config, figures, as_json)


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


@bench.command()
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
    from coverlock_bench.tables import interventions_summary
    from coverlock_bench.zoo.intervention_picture import draw_interventions
    from coverlock_bench.zoo.interventions import interventions as measure

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
    _finish(out, "bench interventions", config, figures, as_json, summary)
    if picture:
        draw_interventions(figures, picture)


@bench.command("training-factors")
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
    from coverlock_bench.tables import training_factors_summary
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
    _finish(out, "bench training-factors", config, figures, as_json, summary)


@bench.command("filters")
@photos_argument
@watermarks_option
@runs_option
@click.option("--pictures", default=1000, show_default=True, help="Photos to mark.")
@click.option("--validation", default=500, show_default=True, help="Held-out photos.")
@click.option("--steps", default=1500, show_default=True)
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
    from coverlock_bench.tables import filters_summary
    from coverlock_bench.zoo.filters import filters
    from coverlock_plugins.convnext.training import Recipe

    recipe = Recipe(pictures=pictures, validation=validation, steps=steps, seed=seed)
    figures = filters(watermarks, photos, runs, recipe)
    config = {"photos": photos.name, "pictures": pictures, "steps": steps, "seed": seed}
    _finish(out, "bench filters", config, figures, as_json, filters_summary(figures))


@bench.command()
@click.argument("result", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("picture", type=click.Path(dir_okay=False, path_type=Path))
def draw(result: Path, picture: Path) -> None:
    """Draw the figures of a RESULT file to a PICTURE (PNG, PDF or SVG)."""
    from coverlock_bench.hashes.calibration_picture import draw_calibration
    from coverlock_bench.hashes.hash_picture import draw_hashes

    drawers = {"bench hash": draw_hashes, "bench calibration": draw_calibration}
    document = json.loads(result.read_text())
    command = document.get("command")
    if command not in drawers:
        raise CoverLockError(f"there is no picture for '{command}': only for {', '.join(drawers)}")
    drawers[command](document["figures"], picture)


@bench.command()
@click.option("-w", "--watermark", default="steganogan", show_default=True)
@images_option
@hash_option
@click.option("--count", default=30, show_default=True, help="Targets of each attack.")
@click.option("--only", multiple=True, help="An attack of the table; may be repeated.")
@click.option("--fpr", default=DEFAULT_FPR, show_default=True)
@click.option("--seed", default=0, show_default=True)
@work_option
@out_option
@json_option
def adaptive(
    watermark: str,
    images: Path | None,
    hash: str,
    count: int,
    only: tuple[str, ...],
    fpr: float,
    seed: int,
    work: Path,
    out: Path,
    as_json: bool,
) -> None:
    """Attack the lock as someone who knows it: best match, feature collision, same scene."""
    from coverlock_bench.adaptive.attackers import ATTACKS
    from coverlock_bench.adaptive.attackers import adaptive as measure
    from coverlock_bench.ledger import Ledger, Run
    from coverlock_bench.tables import adaptive_summary

    photos = find_photos(images)
    run = Run(Ledger(work), quiet=as_json)
    figures = measure(watermark, hash, photos, count, fpr, seed, run, only or ATTACKS)
    config = {"watermark": watermark, "hash": hash, "targets": count, "photos": len(photos)}
    config |= {"fpr": fpr, "seed": seed}
    _finish(out, "bench adaptive", config, figures, as_json, adaptive_summary(figures))


@bench.command()
@images_option
@click.option("--held-out", is_flag=True, help="Only photos that training leaves out.")
@click.option("--count", default=24, show_default=True, help="Forgeries of each attack.")
@click.option("--bits", default=32, show_default=True, help="Bits of a message.")
@click.option("--only", multiple=True, help="A lever of the table; may be repeated.")
@click.option("--fpr", default=DEFAULT_FPR, show_default=True)
@click.option("--seed", default=0, show_default=True)
@work_option
@out_option
@json_option
def levers(
    images: Path | None,
    held_out: bool,
    count: int,
    bits: int,
    only: tuple[str, ...],
    fpr: float,
    seed: int,
    work: Path,
    out: Path,
    as_json: bool,
) -> None:
    """Measure what would raise the bar for a feature collision, and what it would cost."""
    from coverlock_bench.adaptive.lever_study import LEVERS, lever_study
    from coverlock_bench.ledger import Ledger, Run
    from coverlock_bench.tables import levers_summary

    photos = split(images, HELD_OUT)[1] if images and held_out else find_photos(images)
    run = Run(Ledger(work), quiet=as_json)
    figures = lever_study(photos, count, bits, fpr, seed, run, only or tuple(LEVERS))
    config = {"count": count, "bits": bits, "held_out": held_out, "fpr": fpr, "seed": seed}
    _finish(out, "bench levers", config, figures, as_json, levers_summary(figures))


@bench.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--results", type=click.Path(path_type=Path), default=Path("bench/results"))
@click.option("--check", is_flag=True, help="Only say whether the tables are up to date.")
def tables(files: tuple[Path, ...], results: Path, check: bool) -> None:
    """Render the tables of Markdown FILES from result files."""
    from coverlock_bench.tables import render

    stale = []
    for path in files:
        text = path.read_text()
        rendered = render(text, results)
        if rendered != text:
            stale.append(path)
            if not check:
                path.write_text(rendered)
    if check and stale:
        names = ", ".join(map(str, stale))
        raise CoverLockError(f"tables are out of date in {names}: run 'coverlock bench tables'")


def _chosen(images: Path | None, held_out: bool) -> list[Path]:
    """All photos of a folder, or those that training leaves out."""
    return split(images, HELD_OUT)[1] if images and held_out else find_photos(images)


def _finish(
    out: Path,
    command: str,
    config: dict[str, Any],
    figures: Any,
    as_json: bool,
    summary: str | None = None,
) -> None:
    """Write the result file, and print its figures or, for people, their ``summary``."""
    write_result(out, command, config, figures)
    if as_json:
        click.echo(json.dumps({"file": str(out), "figures": figures}, indent=2))
    else:
        click.echo(summary or json.dumps(figures, indent=2))
        click.echo(f"result file: {out}", err=True)

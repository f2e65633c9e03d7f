"""``coverlock bench adaptive`` and ``coverlock bench levers``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_bench.options import hash_option, held_out_option, images_option, out_option
from coverlock_bench.photos import find_photos
from coverlock_bench.results import write_and_print
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.locking.coverlock import DEFAULT_FPR

work_option = click.option(
    "--work",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("runs/adaptive.sqlite"),
    show_default=True,
    help="Measurements made so far; an interrupted run goes on there.",
)


@click.command()
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
    from coverlock_bench.adaptive.tables import adaptive_summary
    from coverlock_bench.ledger import Ledger, Run, resumable

    photos = find_photos(images)
    wanted = chosen(only, ATTACKS, "attack")
    run = Run(Ledger(work), quiet=as_json)
    with resumable(work):
        figures = measure(watermark, hash, photos, count, fpr, seed, run, wanted)
    config = {"watermark": watermark, "hash": hash, "targets": count, "photos": len(photos)}
    config |= {"fpr": fpr, "seed": seed}
    write_and_print(out, "bench adaptive", config, figures, as_json, adaptive_summary(figures))


@click.command()
@images_option
@held_out_option
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
    from coverlock_bench.adaptive.tables import levers_summary
    from coverlock_bench.ledger import Ledger, Run, resumable

    photos = find_photos(images, held_out)
    wanted = chosen(only, tuple(LEVERS), "lever")
    run = Run(Ledger(work), quiet=as_json)
    with resumable(work):
        figures = lever_study(photos, count, bits, fpr, seed, run, wanted)
    config = {"count": count, "bits": bits, "held_out": held_out, "fpr": fpr, "seed": seed}
    write_and_print(out, "bench levers", config, figures, as_json, levers_summary(figures))


def chosen(only: tuple[str, ...], known: tuple[str, ...], kind: str) -> tuple[str, ...]:
    """The rows of a table that were asked for, or all; a misspelt one is refused."""
    unknown = [name for name in only if name not in known]
    if unknown:
        raise CoverLockError(f"there is no {kind} '{unknown[0]}': use {', '.join(known)}")
    return only or known

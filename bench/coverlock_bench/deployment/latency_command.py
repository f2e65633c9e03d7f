"""``coverlock bench latency``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_bench.measurement import Measured, measurement, number_option
from coverlock_bench.photos import find_photos
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.cli.options import Trusted, chosen_keyring, key_option, trust_option
from coverlock_sdk.errors import needs


@measurement(
    "bench latency",
    "images side",
    click.argument("bundles", nargs=-1, required=True, type=click.Path(path_type=Path)),
    click.option("--batch", "batches", multiple=True, type=int, default=(1, 8, 32)),
    click.option("--precision", "precisions", multiple=True, default=("fp32", "fp16", "int8")),
    number_option("--turns", 5, "Passes over all cases."),
    number_option("--threads", 1, "Threads of every runtime."),
    click.option(
        "--clock",
        type=click.Choice(["cpu", "wall"]),
        default="cpu",
        show_default=True,
        help="Processor time is reliable on a busy machine; use wall on a quiet one.",
    ),
    key_option,
    trust_option,
)
def latency(
    bundles: tuple[Path, ...],
    key_file: Path | None,
    trust: Trusted,
    images: Path | None,
    side: int,
    batches: tuple[int, ...],
    precisions: tuple[str, ...],
    clock: str,
    **timing: int,
) -> Measured:
    """Time the stages of verification with BUNDLES, in every runtime and precision.

    Each figure is compared with PyTorch in eager mode, timed in the same run.
    """
    with needs("the latency suite", None, "bench,export"):
        from coverlock_bench.deployment.latency.run import run_suite
        from coverlock_bench.deployment.latency.subjects import jpeg_files, subject_of
        from coverlock_bench.deployment.tables import LATENCY

    photos = find_photos(images)
    jpegs = jpeg_files(photos, max(batches), side)
    key = chosen_keyring(key_file)
    subjects = [subject_of(Bundle.open(path, trust), jpegs, key) for path in bundles]
    figures = run_suite(subjects, batches, precisions, clock=clock, **timing)
    config = {"batches": list(batches), "side": side, **timing}
    config["photos"] = min(len(photos), max(batches))
    notes = [f"left out: {name}, since {reason}" for name, reason in figures["left_out"].items()]
    return Measured(config, figures, LATENCY.markdown(figures), tuple(notes))

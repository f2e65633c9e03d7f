"""``coverlock bench latency``, ``coverlock bench service`` and ``coverlock bench siege``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    number_option("--rounds", 1, "Timings of each case per pass."),
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


@measurement(
    "bench service",
    "bundle images side runtime",
    number_option("--requests", 10_000, "Requests in the steady part."),
    number_option("--connections", 8, "Concurrent connections."),
    number_option("--threads", 1),
)
def service(bundle: Path, images: Path | None, side: int, **load: Any) -> Measured:
    """Load 'coverlock serve' on this machine, first steadily and then beyond its capacity.

    The client shares the machine with the service. Memory is sampled after a warm-up, ten times
    during the run, and at the end. The command fails if a request gets no answer.
    """
    with needs("the load test", None, "bench,serve"):
        from coverlock_bench.deployment.latency.subjects import jpeg_files
        from coverlock_bench.deployment.service import load_test

    pictures = list(jpeg_files(find_photos(images), 32, side))
    options = ("--runtime", load["runtime"])
    figures = load_test(
        bundle, pictures, load["requests"], load["connections"], options, load["threads"]
    )
    return Measured({**_networks(bundle), "side": side, **load}, figures)


@measurement(
    "bench siege",
    "bundle images side runtime",
    number_option("--seconds", 20, "Duration of each attack."),
    number_option("--threads", 1),
    click.option(
        "--nginx",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Configuration of an nginx to attack through, such as examples/deploy/nginx.conf.",
    ),
)
def siege(
    bundle: Path, images: Path | None, side: int, nginx: Path | None, **load: Any
) -> Measured:
    """Attack 'coverlock serve' as two callers, and count the answers that a third gets in time.

    Attackers, callers and the service share the machine.
    """
    with needs("the attacks", None, "bench,serve"):
        from coverlock_bench.deployment.latency.subjects import jpeg_files
        from coverlock_bench.deployment.siege import besiege

    [picture] = jpeg_files(find_photos(images), 1, side)
    options = ("--runtime", load["runtime"], "--limit", f"rejections={10**6}")
    figures = besiege(bundle, picture, load["seconds"], options, nginx, load["threads"])
    config = {**_networks(bundle), "side": side, "nginx": nginx is not None, **load}
    return Measured(config, figures)


def _networks(bundle: Path) -> dict[str, Any]:
    manifest = Bundle.open(bundle).manifest
    return {"watermark": manifest.watermark, "hash": manifest.hash}

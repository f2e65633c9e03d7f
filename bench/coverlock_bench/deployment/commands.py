"""``coverlock bench parity``, ``overhead``, ``service``, ``siege`` and ``scaling``"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from coverlock_bench.measurement import Measured, count_option, measurement, number_option
from coverlock_bench.photos import find_photos
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.errors import CoverLockError, needs


@measurement(
    "parity",
    "watermark hash images seed",
    count_option(500, "How many photos to compare on."),
    click.option("--precision", "precisions", multiple=True, default=("fp32",), show_default=True),
)
def parity(
    watermark: str,
    hash: str,
    images: Path | None,
    count: int,
    precisions: tuple[str, ...],
    seed: int,
) -> Iterator[Measured]:
    """Compare exported graphs with the SDK; the result file grows with every twenty photos."""
    from coverlock_bench.deployment.parity import parity as measure
    from coverlock_export.exporting import LEAST_PHOTOS

    photos = find_photos(images)[: count + LEAST_PHOTOS]
    if len(photos) <= LEAST_PHOTOS:
        raise CoverLockError(
            f"the export needs {LEAST_PHOTOS} photos, and the comparison others: "
            f"there are {len(photos)}"
        )
    config = {"watermark": watermark, "hash": hash, "seed": seed}
    for figures in measure(watermark, hash, photos, precisions, seed):
        yield Measured(config, figures)


@measurement("overhead", "bundle images", number_option("--batch", 8), number_option("--rounds", 9))
def overhead(bundle: Path, images: Path | None, batch: int, rounds: int) -> Measured:
    """Compare the Verifier with a bare session, and one fused graph with two."""
    from coverlock_bench.deployment.overhead import overhead as measure

    manifest = Bundle.open(bundle).manifest
    graph = {"graph": manifest.files[manifest.graphs["verify"]["fp32"]]}
    figures = measure(bundle, find_photos(images), batch, rounds)
    return Measured({**_networks(bundle), **graph}, figures)


@measurement(
    "service",
    "bundle images side runtime",
    number_option("--requests", 10_000),
    number_option("--connections", 8, "Busy at once."),
    number_option("--threads", 1),
)
def service(bundle: Path, images: Path | None, side: int, **load: Any) -> Measured:
    """Load 'coverlock serve' on this machine, first steadily and then with far too much.

    The client shares the machine with the service. Memory is looked at after a warm-up, ten times
    along the way, and at the end. It fails when a request gets no answer.
    """
    with needs("the load test", None, "bench,serve"):
        from coverlock_bench.deployment.latency.subjects import jpeg_files
        from coverlock_bench.deployment.service import load_test

    pictures = list(jpeg_files(find_photos(images), 32, side))
    options = ("--runtime", load["runtime"], "--threads", str(load["threads"]))
    figures = load_test(bundle, pictures, load["requests"], load["connections"], options)
    return Measured({**_networks(bundle), "side": side, **load}, figures)


@measurement(
    "siege",
    "bundle images side runtime",
    number_option("--seconds", 20, "For each attack."),
    number_option("--threads", 1),
)
def siege(bundle: Path, images: Path | None, side: int, **load: Any) -> Measured:
    """Attack 'coverlock serve' as one caller, and count the answers that another gets in time.

    Attackers, callers and the service share the machine.
    """
    with needs("the attacks", None, "bench,serve"):
        from coverlock_bench.deployment.latency.subjects import jpeg_files
        from coverlock_bench.deployment.siege import besiege

    [picture] = jpeg_files(find_photos(images), 1, side)
    threads, rejections = str(load["threads"]), str(10**6)
    options = ("--runtime", load["runtime"], "--threads", threads, "--max-rejections", rejections)
    figures = besiege(bundle, picture, load["seconds"], options)
    return Measured({**_networks(bundle), "side": side, **load}, figures)


@measurement(
    "scaling",
    "bundle images runtime",
    count_option(320, "Pictures; photos repeat if need be."),
    number_option("--workers", 2),
    number_option("--batch", 8),
    number_option("--turns", 3),
    click.option("--embed", is_flag=True, help="Mark pictures instead of verifying them."),
)
def scaling(
    bundle: Path,
    images: Path | None,
    count: int,
    workers: int,
    batch: int,
    turns: int,
    runtime: str,
    embed: bool,
) -> Measured:
    """Compare several processes of one thread each with a single one, turn by turn.

    The speed ratio is of pictures a second, and means something on a quiet machine only. The cost
    ratio is of processor time a picture, and shows how far the processes hinder each other.
    """
    from coverlock_bench.deployment.scaling import scaled_marking
    from coverlock_bench.deployment.scaling import scaling as measure

    photos = find_photos(images)
    config: dict[str, Any] = {"pictures": count, "workers": workers, "batch": batch}
    if embed:
        config |= {"work": "embed"}
        figures = scaled_marking(bundle, photos, count, workers, batch, turns)
    else:
        config |= {"runtime": runtime}
        figures = measure(bundle, photos, count, workers, batch, turns, runtime)
    return Measured({**_networks(bundle), **config}, figures)


@measurement("throughput", "bundle images seed", number_option("--rounds", 5))
def throughput(bundle: Path, images: Path | None, rounds: int, seed: int) -> Iterator[Measured]:
    """Compare verifying and embedding with dwtDctSvd, on one core.

    Large pictures are photos that were enlarged and given the noise of a camera.
    """
    from coverlock_bench.deployment.throughput import throughput as measure

    config = {**_networks(bundle), "rounds": rounds, "seed": seed}
    for figures in measure(bundle, find_photos(images), rounds, seed):
        yield Measured(config, figures)


@measurement(
    "large-verdicts",
    "bundle images seed",
    count_option(200, "Marked pictures."),
    click.option(
        "--work",
        type=click.Path(dir_okay=False, path_type=Path),
        required=True,
        help="File for the verdicts so far; an interrupted run goes on there.",
    ),
)
def large_verdicts(
    bundle: Path, images: Path | None, count: int, seed: int, work: Path
) -> Iterator[Measured]:
    """Compare verdicts on large JPEG files with those on all of their pixels.

    Photos of two megapixels and more are taken as they are. Others are enlarged to 3 to 48
    megapixels and given the noise of a camera.
    """
    from coverlock_bench.deployment.large_verdicts import large_verdicts as measure
    from coverlock_bench.deployment.large_verdicts import summary

    for rows in measure(bundle, find_photos(images), count, seed, work):
        yield Measured({**_networks(bundle), "pictures": len(rows), "seed": seed}, summary(rows))


def _networks(bundle: Path) -> dict[str, Any]:
    manifest = Bundle.open(bundle).manifest
    return {"watermark": manifest.watermark, "hash": manifest.hash}

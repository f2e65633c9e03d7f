"""``coverlock bench service``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_bench.options import images_option
from coverlock_bench.photos import find_photos
from coverlock_bench.results import write_and_print
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.errors import needs


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@images_option
@click.option("--side", default=512, show_default=True, help="Of the JPEG files, in pixels.")
@click.option("--requests", default=10_000, show_default=True)
@click.option("--connections", default=8, show_default=True, help="Busy at once.")
@click.option("--runtime", default="cpu", show_default=True)
@click.option("--threads", default=1, show_default=True)
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="Result file.")
@json_option
def service(
    bundle: Path,
    images: Path | None,
    side: int,
    requests: int,
    connections: int,
    runtime: str,
    threads: int,
    out: Path,
    as_json: bool,
) -> None:
    """Load 'coverlock serve' on this machine, first steadily and then with far too much.

    The client shares the machine with the service. Memory is looked at after a warm-up, ten times
    along the way, and at the end. It fails when a request gets no answer.
    """
    with needs("the load test", None, "bench,serve"):
        from coverlock_bench.deployment.latency.subjects import jpeg_files
        from coverlock_bench.deployment.service import load_test
    pictures = list(jpeg_files(find_photos(images), 32, side))
    options = ("--runtime", runtime, "--threads", str(threads))
    figures = load_test(bundle, pictures, requests, connections, options)
    manifest = Bundle.open(bundle).manifest
    config = {
        "watermark": manifest.watermark,
        "hash": manifest.hash,
        "side": side,
        "requests": requests,
        "connections": connections,
        "runtime": runtime,
        "threads": threads,
    }
    write_and_print(out, "bench service", config, figures, as_json)

"""``coverlock bench parity``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from coverlock_bench.options import hash_option, images_option, out_option
from coverlock_bench.photos import find_photos
from coverlock_bench.results import write_and_print, write_result
from coverlock_sdk.cli.options import json_option


@click.command()
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
    write_and_print(out, "bench parity", config, figures, as_json)

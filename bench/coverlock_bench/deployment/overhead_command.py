"""``coverlock bench overhead``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_bench.options import images_option, out_option
from coverlock_bench.photos import find_photos
from coverlock_bench.results import write_and_print
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.cli.options import json_option


@click.command()
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

    manifest = Bundle.open(bundle).manifest
    figures = measure(bundle, find_photos(images), batch, rounds)
    config = {
        "watermark": manifest.watermark,
        "hash": manifest.hash,
        "graph": manifest.files[manifest.graphs["verify"]["fp32"]],
    }
    write_and_print(out, "bench overhead", config, figures, as_json)

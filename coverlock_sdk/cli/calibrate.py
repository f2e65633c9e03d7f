"""``coverlock calibrate``"""

from __future__ import annotations

from dataclasses import asdict

import click

from coverlock_sdk.cli.answers import answer
from coverlock_sdk.cli.opening import open_watermark
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.folders import find_pictures
from coverlock_sdk.training.photos import is_held_out
from coverlock_sdk.watermarking.decoder_calibration import fit_decoder


@click.command()
@click.argument("watermark")
@click.option("--images", required=True, help="Folder of training photos (not evaluation ones).")
@click.option(
    "--count",
    default=200,
    show_default=True,
    type=click.IntRange(1),
    help="How many of them to use.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of messages and distortions.")
@json_option
def calibrate(watermark: str, images: str, count: int, seed: int, as_json: bool) -> None:
    """Measure how far the logits of WATERMARK can be trusted.

    Put the printed line into the plugin: the soft rule weighs bits by it. A tenth of the photos,
    the same that training a hash leaves out, is not used, so that results can be reported on it.
    """
    decoder = open_watermark(watermark)
    found = [source.path for source in find_pictures([images])]
    photos = [path for path in found if not is_held_out(path)][:count]
    if not photos:
        raise PictureError(f"{images} has only photos that are held out for validation: add more")
    calibration = fit_decoder(decoder, photos, seed)
    answer(
        {"watermark": watermark, "photos": len(photos), **asdict(calibration)},
        as_json,
        f"calibration = Calibration(scale={calibration.scale:.4f}, power={calibration.power:.4f})",
    )

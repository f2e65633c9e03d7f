"""``coverlock calibrate``"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
import numpy as np

from coverlock_sdk.calibration import Calibration
from coverlock_sdk.cli.options import json_option, open_watermark
from coverlock_sdk.cli.output import answer
from coverlock_sdk.contract import Watermark
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import draw_training_distortion
from coverlock_sdk.images.folders import find_pictures, is_held_out
from coverlock_sdk.images.picture import Picture
from coverlock_sdk.plugin_calls import Networks
from coverlock_sdk.progress import progress


@click.command()
@click.argument("watermark")
@click.option(
    "--images", required=True, help="Folder of photos that you will not report results on."
)
@click.option("--count", default=200, type=click.IntRange(1), help="How many of them to use.")
@click.option("--seed", default=0, help="Seed of messages and distortions.")
@json_option
def calibrate(watermark: str, images: str, count: int, seed: int, as_json: bool) -> None:
    """Measure how reliable the logits of WATERMARK are.

    Paste the printed line into the plugin; verification uses it to weigh bits. A tenth of the
    photos is held out for validation and not used, the same tenth that training holds out.
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


def fit_decoder(watermark: Watermark, photos: list[Path], seed: int) -> Calibration:
    """Calibrate a decoder on marked 8-bit photos, as they are and under training distortions."""
    rng, networks = np.random.default_rng(seed), Networks(watermark, None)
    logits, bits = [], []
    for photo in progress(photos):
        payload = rng.integers(0, 2, (1, watermark.bits), dtype=np.uint8)
        cover = Picture(read(photo).to_bytes())
        [residual] = networks.residuals(networks.views([cover]), payload)
        marked = cover.with_residual(residual)
        distorted = Picture(draw_training_distortion(rng)(marked.to_bytes(), rng))
        logits.append(networks.decoded(networks.views([marked, distorted])))
        bits.append(np.repeat(payload, 2, axis=0))
    return Calibration.fit(np.concatenate(logits), np.concatenate(bits))

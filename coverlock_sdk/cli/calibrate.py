"""``coverlock calibrate``"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click
import numpy as np

from coverlock_sdk.cli.options import json_option
from coverlock_sdk.contract import Watermark
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.distortions import draw_training_distortion
from coverlock_sdk.images.folders import find_pictures
from coverlock_sdk.images.kinds import read
from coverlock_sdk.images.picture import Picture
from coverlock_sdk.loading import load_watermark
from coverlock_sdk.locking.calibration import Calibration
from coverlock_sdk.plugin_calls import Networks
from coverlock_sdk.progress import progress
from coverlock_sdk.training.photos import is_held_out


@click.command()
@click.argument("watermark")
@click.option("--images", required=True, help="Folder of training photos (not evaluation ones).")
@click.option("--count", default=200, show_default=True, help="How many of them to use.")
@click.option("--seed", default=0, show_default=True)
@json_option
def calibrate(watermark: str, images: str, count: int, seed: int, as_json: bool) -> None:
    """Fit how far a watermark's logits can be trusted.

    The two numbers go into the plugin, as ``calibration = Calibration(scale, power)``; the
    soft rule weighs bits by them. The tenth of the photos that hash training holds out is left
    alone, so that it can be reported on.
    """
    found = [source.path for source in find_pictures([images])]
    photos = [path for path in found if not is_held_out(path)][:count]
    if not photos:
        raise PictureError(
            f"every picture of {images} is held out for validation: add more of them"
        )
    calibration = fit_decoder(load_watermark(watermark), photos, seed)
    if as_json:
        report = {"watermark": watermark, "photos": len(photos), **asdict(calibration)}
        click.echo(json.dumps(report))
    else:
        numbers = f"scale={calibration.scale:.4f}, power={calibration.power:.4f}"
        click.echo(f"calibration = Calibration({numbers})")


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

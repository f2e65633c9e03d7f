"""Fit the calibration of the ``mhdw`` hash: ``python -m coverlock_plugins.mhdw.fit PHOTOS``."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from coverlock_plugins.mhdw import MhdwHash
from coverlock_sdk.calibration import Calibration
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import draw_training_distortion
from coverlock_sdk.images.folders import HELD_OUT, split
from coverlock_sdk.images.picture import stacked_views
from coverlock_sdk.progress import progress


def fit(photos: list[Path], seed: int) -> Calibration:
    """Compare each photo's bits with those under one distortion of the training distribution."""
    rng = np.random.default_rng(seed)
    image_hash = MhdwHash()
    logits = []
    for photo in progress(photos):
        clean = read(photo)
        distorted = read(draw_training_distortion(rng)(clean.to_bytes(), rng))
        logits.append(image_hash.logits(stacked_views([clean, distorted], image_hash.input_size)))
    clean_logits, distorted_logits = np.stack(logits, axis=1)
    return Calibration.fit(distorted_logits, clean_logits > 0)


@click.command()
@click.argument("photos", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--seed", default=0, show_default=True)
def main(photos: Path, seed: int) -> None:
    """Print the calibration that belongs into the plugin, from the held-out part of PHOTOS."""
    calibration = fit(split(photos, HELD_OUT)[1], seed)
    click.echo(f"Calibration(scale={calibration.scale:.4f}, power={calibration.power:.4f})")


if __name__ == "__main__":
    main()
